"""`table[places] = values` of another type: slices and numbers convert, places do not, and a mask converts one value."""

import pytest
import torch
from harness import compiled

KEYS = {
    "places": torch.tensor([0]),
    "two places": torch.tensor([0, 1]),
    "a list": [0, 1],
    "no place": torch.tensor([], dtype=torch.int64),
    "a number in a tensor": torch.tensor(0),
    "places and a number": (torch.tensor([0, 1]), 1),
    "a slice and places": (slice(0, 1), torch.tensor([0, 1])),
    "pairs of lists": ([0, 1], [1, 0]),
    "a mask": torch.tensor([True, True, False]),
    "a list of flags": [True, True, False],
    "a mask and a number": (torch.tensor([True, True, False]), 0),
    "a slice": slice(0, 2),
}
VALUES = {
    "a number": 2.9,
    "a tensor's number": torch.tensor(2.9),
    "one": torch.tensor([2.9]),
    "two": torch.tensor([2.9, 3.9]),
    "four": torch.tensor([[2.9, 3.9], [1.5, 2.5]]),
}


@pytest.mark.may_break
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.float32])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("key", KEYS)
def test_written_or_refused_as_by_torch(key, values, dtype):
    def program(table, values):
        table[KEYS[key]] = values
        return table * 2

    def outcome(function):
        table = torch.ones(3, 2, dtype=dtype)
        try:
            return function(table, VALUES[values]).tolist(), table.tolist()
        except (RuntimeError, IndexError) as error:
            return type(error), str(error), table.tolist()

    assert outcome(compiled(program)) == outcome(program)
