"""`assemble(decode(code))` is the same program: for whole modules of the standard library, and for generated code."""

import argparse
import ast
import asyncio
import asyncio.tasks
import contextlib
import dataclasses
import difflib
import importlib.util
import inspect
import json.decoder
import json.encoder
import sys
import types
import typing
import unittest.mock

import pytest
from dynascope.frame.assembler import assemble
from dynascope.frame.exception_table import parse_exception_table, write_exception_table
from dynascope.frame.instructions import Instruction, decode
from dynascope.frame.shape import CodeShape
from dynascope.frame.stack_depth import depths
from dynascope.frame.stack_shape import stack_shapes

from . import programs
from .stepping import outcome

MODULES = [argparse, ast, asyncio.tasks, contextlib, dataclasses, difflib, inspect, json.decoder, json.encoder, typing]
MODULES += [unittest.mock]


def codes_within(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_within(constant)


def module_codes(module):
    source = importlib.util.find_spec(module.__name__).loader.get_source(module.__name__)
    return codes_within(compile(source, module.__file__, "exec", dont_inherit=True))


def rebuilt(code):
    """The code and all codes in it, taken apart and put together."""
    instructions = decode(code)
    for instruction in instructions:
        if isinstance(instruction.value, types.CodeType):
            instruction.value = rebuilt(instruction.value)
    return assemble(instructions, CodeShape.of(code))


def description(instructions: list[Instruction]) -> list[tuple]:
    index = {instruction: number for number, instruction in enumerate(instructions)}
    return [
        (i.operation, i.argument, i.value, i.bits, i.keyword_names, i.position, index.get(i.target))
        + ((index[i.handler.target], i.handler.depth, i.handler.push_lasti) if i.handler else ())
        for i in instructions
    ]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_code_of_a_module(module):
    for code in module_codes(module):
        instructions = decode(code)
        again = assemble(instructions, CodeShape.of(code))
        assert description(decode(again)) == description(instructions), code
        assert again.co_stacksize == max(1, code.co_stacksize), code
        attributes = "co_varnames co_cellvars co_freevars co_flags co_argcount co_firstlineno co_qualname co_nlocals"
        for attribute in attributes.split():
            assert getattr(again, attribute) == getattr(code, attribute), (code, attribute)
        if again.co_code == code.co_code:
            assert again.co_exceptiontable == code.co_exceptiontable


@pytest.mark.parametrize("module", [json.decoder, dataclasses, contextlib], ids=lambda module: module.__name__)
def test_lines_and_columns_of_a_module(module):
    for code in module_codes(module):
        again = assemble(decode(code), CodeShape.of(code))
        if again.co_code == code.co_code:
            calls = {i.offset for i in decode(code) if i.keyword_names}  # their names and call are one instruction
            if not calls:
                assert list(again.co_positions()) == list(code.co_positions())


@pytest.mark.parametrize("module", MODULES[:6], ids=lambda module: module.__name__)
def test_the_two_ways_to_the_stack_depth_agree(module):
    for code in module_codes(module):
        instructions = decode(code)
        assert {i: len(stack) for i, stack in stack_shapes(instructions).items()} == depths(instructions)


def test_exception_tables_round_trip():
    for code in module_codes(asyncio.tasks):
        entries = parse_exception_table(code.co_exceptiontable)
        assert write_exception_table(entries) == code.co_exceptiontable


def load_rebuilt(module):
    spec = importlib.util.find_spec(module.__name__)
    copy = types.ModuleType(module.__name__)
    copy.__dict__.update(__file__=module.__file__, __spec__=spec, __package__=spec.parent, __builtins__=__builtins__)
    source = spec.loader.get_source(module.__name__)
    exec(rebuilt(compile(source, module.__file__, "exec", dont_inherit=True)), copy.__dict__)
    return copy


@pytest.fixture
def rebuilt_module(request, monkeypatch):
    module = load_rebuilt(request.param)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.mark.parametrize("rebuilt_module", [argparse], indirect=True)
def test_argparse_works(rebuilt_module, capsys):
    parser = rebuilt_module.ArgumentParser(prog="p", description="d")
    parser.add_argument("--number", type=int, default=3, choices=range(9))
    parser.add_argument("rest", nargs="*")
    assert vars(parser.parse_args(["--number", "4", "a", "b"])) == {"number": 4, "rest": ["a", "b"]}
    with pytest.raises(SystemExit):
        parser.parse_args(["--number", "x"])
    assert "invalid int value" in capsys.readouterr().err


@pytest.mark.parametrize("rebuilt_module", [dataclasses], indirect=True)
def test_dataclasses_work(rebuilt_module):
    @rebuilt_module.dataclass(frozen=True, order=True, slots=True)
    class Point:
        x: int
        y: list = rebuilt_module.field(default_factory=list)

    assert repr(Point(1)).endswith("Point(x=1, y=[])") and Point(1) < Point(2)
    assert rebuilt_module.asdict(rebuilt_module.replace(Point(1), x=5)) == {"x": 5, "y": []}
    with pytest.raises(rebuilt_module.FrozenInstanceError):
        Point(1).x = 2


@pytest.mark.parametrize("rebuilt_module", [contextlib], indirect=True)
def test_contextlib_works(rebuilt_module):
    events = []

    @rebuilt_module.contextmanager
    def managed(name):
        events.append(name)
        try:
            yield name
        finally:
            events.append(-name)

    with pytest.raises(ZeroDivisionError), rebuilt_module.ExitStack() as stack:
        stack.enter_context(managed(1))
        stack.enter_context(managed(2))
        stack.callback(events.append, 3)
        events.append(1 / 0)
    assert events == [1, 2, 3, -2, -1]


@pytest.mark.parametrize("rebuilt_module", [inspect], indirect=True)
def test_inspect_works(rebuilt_module):
    def function(a, /, b: int = 1, *rest, c, **others) -> str: ...

    assert str(rebuilt_module.signature(function)) == "(a, /, b: int = 1, *rest, c, **others) -> str"


@pytest.mark.parametrize("rebuilt_module", [difflib], indirect=True)
def test_difflib_generators_work(rebuilt_module):
    one, other = ["a\n", "b\n", "c\n"], ["a\n", "x\n", "c\n"]
    assert list(rebuilt_module.ndiff(one, other)) == list(difflib.ndiff(one, other))
    assert list(rebuilt_module.unified_diff(one, other)) == list(difflib.unified_diff(one, other))


def rebuilt_function(function):
    again = types.FunctionType(
        rebuilt(function.__code__), function.__globals__, None, function.__defaults__, function.__closure__
    )
    again.__kwdefaults__ = function.__kwdefaults__
    return again


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_programs_behave_the_same(name):
    function, calls = programs.PROGRAMS[name]
    again = rebuilt_function(function)
    for arguments in calls:
        expected = outcome(lambda copied: function(*copied), arguments)
        assert outcome(lambda copied: again(*copied), arguments) == expected


def test_coroutines_and_generators():
    events = []

    class Asynchronous:
        async def __aenter__(self):
            await asyncio.sleep(0)
            events.append("in")

        async def __aexit__(self, *error):
            await asyncio.sleep(0)
            events.append(error[0])
            return True

    async def numbers(n):
        for i in range(n):
            try:
                yield i
            finally:
                events.append(i)

    def delegate(n):
        got = yield from range(n)
        sent = yield got
        return sent

    async def main():
        async with Asynchronous():
            total = [i async for i in rebuilt_function(numbers)(3) if await asyncio.sleep(0, True)]
            async for i in rebuilt_function(numbers)(2):
                total.append(i)
            raise KeyError(tuple(total))
        return total

    assert asyncio.run(rebuilt_function(main)()) == [0, 1, 2, 0, 1]
    assert events == ["in", 0, 1, 2, 0, 1, KeyError]
    generator = rebuilt_function(delegate)(2)
    assert [next(generator), next(generator), next(generator)] == [0, 1, None]
    with pytest.raises(StopIteration) as stop:
        generator.send("sent")
    assert stop.value.value == "sent"


@pytest.mark.parametrize("size", [40, 300, 9000])
def test_long_jumps_and_many_names(size):
    """Sizes at which arguments and jumps need one and two EXTENDED_ARG, forward and backward."""
    body = "\n".join(f"        if x == {i}.5: y{i} = name_{i}" for i in range(size))
    source = f"def f(x, n):\n    while n:\n        n -= 1\n{body}\n        if n == 7: break\n    return x, n\n"
    namespace = {"name_3": 1}
    exec(compile(source, "big.py", "exec"), namespace)
    function = namespace["f"]
    again = rebuilt_function(function)
    assert again(1, 3) == function(1, 3) == (1, 0)
    assert again(3.5, 9) == (3.5, 7)
    with pytest.raises(NameError, match="name_7"):
        again(7.5, 1)


def test_no_columns_and_far_lines():
    code = compile("x = (1 +\n" + "\n" * 5000 + " y)\nz = 1" + " " * 200 + "+ x", "far.py", "exec")
    again = assemble(decode(code), CodeShape.of(code))
    assert [i.position for i in decode(again)] == [i.position for i in decode(code)]
