"""Positions beyond 32 bits: tensors of more than 2**31 elements on a GPU give what eager gives."""

import dynascope
import pytest
import torch

COUNT = 2**31 + 4099


def numbers():
    x = torch.zeros(COUNT, device="cuda", dtype=torch.int8)
    x[5], x[2**31 + 7], x[-1] = 3, 9, -4
    return x


def at_its_ends(x):
    return x[2**31 - 5 : 2**31 + 9] + 1, x[-3:] * 2


PROGRAMS = {
    "elements": lambda x: at_its_ends(x * 2 + 1),
    "sums": lambda x: (x.sum(dtype=torch.int64), x.amax(), x.amin()),
    "places": lambda x: (x.argmax(), x.argmin()),
    "rows": lambda x: (x.view(1, -1).argmax(1), x[: COUNT // 7 * 7].view(-1, 7).sum(0, dtype=torch.int64)),
    "another order": lambda x: at_its_ends(x[: COUNT // 3 * 3].view(3, -1).t().contiguous().view(-1)),
    "variance": lambda x: (x.float() + 3).var(),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", PROGRAMS)
def test_large_tensors(name):
    if torch.cuda.mem_get_info()[0] < 40e9:
        pytest.skip("needs 40 GB of memory")
    x = numbers()
    found, expected = dynascope.compile(PROGRAMS[name])(x), PROGRAMS[name](x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
