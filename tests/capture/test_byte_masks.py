"""`torch.where` of masks of bytes, which the kernels take and meta kernels refuse."""

import dynascope
import pytest
import torch

MASK = torch.tensor([1, 0, 2], dtype=torch.uint8)


def program(x, mask):
    by_name = torch.where(condition=mask, input=x, other=x.new_zeros(()))
    return torch.where(mask, x, -x), x.where(mask, -x), x.where(condition=mask, other=x * 2), torch.where(mask, 1.0, 0.0), by_name


@pytest.mark.filterwarnings("ignore:where received a uint8")
def test_masks_of_bytes():
    ours, theirs = (torch.ones(3, requires_grad=True) for _ in range(2))
    results, expected = dynascope.compile(program, fullgraph=True)(ours, MASK), program(theirs, MASK)
    torch.testing.assert_close(results, expected)
    sum(each.sum() for each in results).backward()
    sum(each.sum() for each in expected).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    places = dynascope.compile(lambda mask: torch.where(mask)[0] + 1, backend="eager", fullgraph=True)
    assert places(MASK).tolist() == [1, 3]


def test_that_is_warned_of_when_kernels_are_made():
    compiled = dynascope.compile(lambda x, mask: torch.where(mask, x, -x))
    with pytest.warns(UserWarning, match="where received a uint8 condition tensor") as given:
        assert compiled(torch.ones(3), MASK).tolist() == compiled(torch.ones(3), MASK).tolist() == [1, -1, 1]
    assert len(given) == 1
