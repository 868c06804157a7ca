"""Relations between numbers: the hook's steps answer as Python does, for every number, and overflow is left to Python."""

import re
import types
from pathlib import Path

import pytest
import torch
from dynascope.frame import hook
from dynascope.guards import relation_steps as steps_made
from dynascope.guards.check import compile_guards
from dynascope.guards.guard import Guard
from dynascope.guards.relation_guard import RelationHolds
from dynascope.guards.relation_steps import relation_steps
from dynascope.guards.source import ExtentSource, FrameValues, LocalSource
from dynascope.guards.tensor_layout import tensor_layout
from dynascope.sizes import Relation, Scope
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)
OPERATIONS = [
    lambda n, m: n + m,
    lambda n, m: n * m - 3 * n,
    lambda n, m: n // 7 + m % 5,
    lambda n, m: n // -3 + m % -4,
    lambda n, m: n * n * m,
    lambda n, m: n.apply("min", n, m) + m.apply("max", m, 2),
]


def code_of_two(n, m):
    return n, m


def program_of(relation):
    names = tuple(root.name for root in relation.roots())
    predicate = RelationHolds(relation, names, str(relation))
    guard = Guard(tuple(LocalSource(name) for name in names), predicate)
    steps = relation_steps([(predicate, guard.sources)], lambda source: 0)
    return guard, compile_guards([guard], code_of_two.__code__), steps


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">="])
@given(n=NUMBERS, m=NUMBERS, right=NUMBERS, which=st.sampled_from(OPERATIONS))
def test_as_in_python(operator, n, m, right, which):
    scope = Scope()
    value = which(scope.root("n", 3), scope.root("m", 4))
    guard, program, steps = program_of(Relation(operator, value.expression, right))
    assert steps is not None or abs(right) > 2**62
    values = FrameValues({"n": n, "m": m}, {}, {})
    assert program.holds((n, m), types.FunctionType(code_of_two.__code__, {})) == guard.holds(values)


def test_what_is_no_int_is_left_to_python():
    scope = Scope()
    real = scope.root("n", 2.5)
    assert program_of(Relation("<", real.expression, 3.0))[2] is None
    assert (
        program_of(Relation("==", scope.root("m", 4).apply("math.isqrt", scope.root("m", 4)).expression, 2))[2] is None
    )


@pytest.mark.skipif(not hook.is_native() or tensor_layout() is None, reason="tensors are read in Python here")
def test_sizes_and_strides_of_tensors():
    scope = Scope()
    size, stride = scope.root("s", 3, low=2), scope.root("t", 4, low=2)
    relation = Relation("==", (4 * size - 3 * stride).expression, 0)
    names = ("s", "t")
    sources = (ExtentSource(LocalSource("n"), "size", 0), ExtentSource(LocalSource("m"), "stride", 1))
    guard = Guard(sources, RelationHolds(relation, names, "s == t"))
    program = compile_guards([guard], code_of_two.__code__)
    function = types.FunctionType(code_of_two.__code__, {})
    for n, m in (
        (torch.rand(3, 5), torch.rand(2, 2, 4)),
        (torch.rand(6), torch.rand(2, 2, 8)),
        (torch.rand(4), torch.rand(2, 2, 4)),
    ):
        assert program.holds((n, m), function) == guard.holds(FrameValues({"n": n, "m": m}, {}, {}))
    many = torch.rand(3, 1, 1, 1, 1, 1, 2)
    assert program.holds((many, torch.rand(2, 2, 4)), function)
    assert not program.holds((torch.tensor(1.0), torch.rand(2, 2, 4)), function), "it has no such size"
    assert not program.holds(([1], torch.rand(2, 2, 4)), function)


def test_steps_have_the_numbers_of_the_hook():
    """They are written twice: in C, and for who makes them."""
    header = (Path(hook.__file__).parent / "relations.h").read_text()
    listed, depth = (
        re.search(r"RELATION_STEPS\(_\)((?:.*\\\n)*.*)", header),
        re.search(r"RELATION_DEPTH = (\d+)", header),
    )
    words = {"//": "FLOOR_DIVIDE", "%": "MODULO", "min": "MINIMUM", "max": "MAXIMUM", "==": "EQUAL", "!=": "NOT_EQUAL"}
    words |= {"<": "LESS", "<=": "LESS_OR_EQUAL", ">": "GREATER", ">=": "GREATER_OR_EQUAL"}
    numbers = {
        words.get(name, name): number
        for name, number in {**vars(steps_made), **steps_made.OPERATIONS, **steps_made.COMPARISONS}.items()
        if name in words or name in ("PUSH", "PUSH_SIZE", "PUSH_STRIDE", "PUSH_NUMBER", "ADD", "MULTIPLY")
    }
    assert sorted(numbers, key=numbers.get) == re.findall(r"_\((\w+)\)", listed[1])
    assert sorted(numbers.values()) == list(range(len(numbers))) and int(depth[1]) == steps_made.DEEPEST
