"""Parts of a tensor, of which there are as many at each call where an operation says so itself: nothing is run to find out."""

import dynascope
import pytest
import torch
from dynascope.capture.extents import Extents

WEIGHT = torch.randn(12, 4)


def projected(x):
    return torch.nn.functional.linear(x, WEIGHT)


def heads(x):
    return projected(x).view(x.shape[0], -1, 3, 4).transpose(1, 2)


STATED = {
    "of a product": lambda x: projected(x).chunk(3, -1),
    "of sizes": lambda x: projected(x).split([3, 4, 5], dim=-1),
    "of a view": lambda x: torch.chunk(heads(x), 3, 1),
    "of parts": lambda x: [each for part in projected(x).split(6, 2) for each in part.chunk(2, -1)],
    "of an argument": lambda x: torch.split(x, 2, 2),
}
VARYING = {
    "rows": lambda x: projected(x).split(4, 1),
    "turned in place": lambda x: projected(x).transpose_(1, 2).chunk(3, -1),
    "turned": lambda x: projected(x).transpose(1, 2).split(4, -1),
    "an inferred size": lambda x: heads(x).reshape(9, -1, 4).split(4, 1),
    "along parts": lambda x: projected(x).chunk(2, 1)[0].split(2, 1),
}


def shapes_of(parts):
    return [each.shape for each in parts]


@pytest.mark.parametrize("name", STATED)
def test_what_is_stated_is_not_asked(name, monkeypatch):
    settle = Extents.settle_length

    def without_asking(extents, node, parts):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Extents, "_answers_elsewhere", lambda *_: pytest.fail("the graph was run at other sizes"))
            settle(extents, node, parts)

    monkeypatch.setattr(Extents, "settle_length", without_asking)

    def scaled(x):
        return [each * 2 for each in STATED[name](x)]

    compiled = dynascope.compile(scaled, backend="eager")
    for length in (6, 7, 9):
        x = torch.randn(3, length, 4)
        dynascope.mark_dynamic(x, 1)
        assert all(map(torch.equal, compiled(x), scaled(x)))


@pytest.mark.parametrize("name", [*STATED, *VARYING])
def test_there_are_as_many_parts_as_in_eager(name):
    cut = (STATED | VARYING)[name]

    def scaled(x):
        return [each * 2 for each in cut(x)]

    compiled = dynascope.compile(scaled, backend="eager")
    for length in (6, 7, 9, 12, 16, 6):
        x = torch.randn(3, length, 4)
        dynascope.mark_dynamic(x, 1)
        parts, expected = compiled(x), scaled(x)
        assert shapes_of(parts) == shapes_of(expected)
        for part, other in zip(parts, expected, strict=True):
            torch.testing.assert_close(part, other)


def test_a_function_of_the_name_is_another():
    """Only torch's own cut into equal parts."""

    class Rows(torch.nn.Module):
        def split(self, x, size):
            return [x[at : at + size] for at in range(0, x.shape[0], size)]

        def forward(self, x):
            return [part.sum() for part in self.split(x, 4)]

    module = Rows()
    compiled = dynascope.compile(module, dynamic=True, backend="eager")
    for length in (8, 9, 4, 12):
        x = torch.randn(length, 3)
        torch.testing.assert_close(compiled(x), module(x))
