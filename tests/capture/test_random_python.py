"""Random programs, compiled and called with arguments that change, against plain Python.

`python tests/capture/test_random_python.py FIRST COUNT` runs more of them, and prints those that differ.
"""

import copy
import linecache
import random
import sys

import pytest
import torch
from harness import compiled
from random_python import write
from test_programs import observe, same


def load(seed):
    text = write(random.Random(seed))
    name = f"<random program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"__name__": "programs"}
    exec(compile(text, name, "exec"), space)
    return text, space


def arguments_of(space, seed):
    source = random.Random(seed)
    torch.manual_seed(seed)
    shape = source.choice([(2, 2), (2, 2), (2, 2), (3,), (2, 3)])
    number = source.choice([0, 1, 2, 3, 5, 2.5])
    items = [torch.rand(shape) for _ in range(3)]
    return [
        torch.rand(shape),
        torch.rand(shape),
        number,
        items,
        {"w": torch.rand(shape), "c": number},
        space["Thing"](1),
    ]


def differences(seed):
    """Which of a program's calls differ from plain Python's; and its text."""
    text, space = load(seed)
    dispatch = compiled(space["program"])
    found = []
    for call in (0, 0, 1, 2, 3, 0):
        plain = arguments_of(space, seed * 10 + call)
        captured = copy.deepcopy(plain)
        expected, got = observe(space["program"], plain), observe(dispatch, captured)
        if not same(got, expected) or not same(captured, plain):
            found.append((call, expected, got, plain, captured))
    internal = [
        r for r in dispatch.compilation.reasons + [r.reason for r in dispatch.refused] if r.code == "internal-failure"
    ]
    return text, found, internal


@pytest.mark.parametrize("seed", range(40))
def test_random_program_does_what_python_does(seed):
    text, found, internal = differences(seed)
    assert not found, text
    assert not internal, text


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    bad = 0
    for each in range(first, first + count):
        text, found, internal = differences(each)
        if found or internal:
            bad += 1
            print("SEED", each, [f[0] for f in found], internal)
            if "-v" in sys.argv:
                print(text, *found, sep="\n")
    print(f"{count} programs, {bad} bad")
