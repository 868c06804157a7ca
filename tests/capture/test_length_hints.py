"""A class of the program's is asked for its length by what makes a list or a tuple of it, after `__iter__` and before the items."""

import dynascope
import pytest
import torch
from test_outside_protocols import assert_same

X = torch.ones(2)


class Data:
    def __init__(self, length=2, hint=NotImplemented):
        self.length, self.hint, self.said = length, hint, []

    def __iter__(self):
        self.said.append("iter")
        return self.items()

    def items(self):
        self.said.append("items")
        yield from (1, 2, 3)


class Sized(Data):
    def __len__(self):
        self.said.append("len")
        if isinstance(self.length, type):
            raise self.length("no length")
        return self.length


class Hinted(Data):
    def __length_hint__(self):
        self.said.append("hint")
        return self.hint


class Both(Sized, Hinted):
    pass


def taken(*given, **named):
    return given, named


MAKERS = {
    "list": list,
    "tuple": tuple,
    "display": lambda data: [0, *data],
    "tuple display": lambda data: (*data, 0),
    "call": lambda data: taken(*data, 0),
    "only argument": lambda data: taken(*data),
    "sorted": sorted,
    "size": torch.Size,
    "extend": lambda data: extended([0], data),
    "added": lambda data: added([0], data),
    "set": set,
    "sum": sum,
    "unpacked": lambda data: unpacked(data),
    "comprehension": lambda data: [item for item in data],  # noqa: C416
}


def extended(items, data):
    items.extend(data)
    return items


def added(items, data):
    items += data
    return items


def unpacked(data):
    first, *rest = data
    return first, rest


DATA = {
    "sized": lambda: Sized(),
    "sized wrongly": lambda: Sized(7),
    "without a length": lambda: Sized(TypeError),
    "fails": lambda: Sized(NotImplementedError),
    "hinted": lambda: Hinted(hint=2),
    "not hinted": lambda: Hinted(),
    "both": lambda: Both(),
    "both, the first does not know": lambda: Both(TypeError, 5),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("maker", MAKERS)
def test_who_is_asked(maker, data):
    make, made = MAKERS[maker], DATA[data]

    def program(x):
        given = made()
        try:
            found = make(given)
        except NotImplementedError as error:
            found = str(error)
        return found, given.said, x + 1

    assert_same(program(X), dynascope.compile(program)(X))


def test_a_length_that_varies_is_not_pinned(compilations):
    class Rows:
        def __init__(self, x):
            self.x = x

        def __len__(self):
            return self.x.shape[0]

        def __iter__(self):
            return iter((self.x, self.x * 2))

    def program(x):
        return torch.cat(list(Rows(x)))

    compiled = dynascope.compile(program, dynamic=True)
    for rows in (3, 5, 8):
        x = torch.randn(rows, 2)
        assert torch.equal(compiled(x), program(x))
    assert len(compilations) == 1
