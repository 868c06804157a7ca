"""Whether a lowered program keeps the promises of `nodes.py`, so that what a pass breaks is found where it broke.

    verify_program(program)                       raises Invalid, which names the node, the value and the promise

For tests: strict mode asks after each stage. A code generator that is handed a body in which a value is used before it exists, or an
index that leaves its buffer, would write a kernel that builds and computes something.

Sizes that vary are taken as they are at hand (`hint_of`), which relies on nothing.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from dynascope.loops.dtypes import short_name
from dynascope.loops.index import Atom, Index, Loaded, Quotient, Remainder, Symbol
from dynascope.loops.nodes import (
    Argument,
    Body,
    Buffer,
    CheckIndex,
    Compute,
    Constant,
    ExternCall,
    IndexValue,
    Load,
    LoopNode,
    LoopProgram,
    Node,
    Operation,
    Reduce,
    Result,
    Scan,
    ScatterNode,
    Store,
    TensorView,
)
from dynascope.loops.operations import ALSO_OF_BOOLS, TABLE
from dynascope.sizes import hint_of

POINTS = 4096
"""So many places of an index are looked at, where its bounds do not tell; all of them where there are no more."""
_FIXED = {"bool": torch.bool, "single": torch.float32}


class Invalid(Exception):
    """A promise of the loop IR is broken. Says where."""


def verify_program(program: LoopProgram) -> None:
    """Raises Invalid."""
    known = {i.name for i in program.inputs if isinstance(i, Buffer)} | set(program.constants)
    for node in program.nodes:
        for buffer in _made(node):
            if buffer.name in known:
                raise Invalid(f"{node.name} makes {buffer.name}, which is there already")
            if program.buffers.get(buffer.name) != buffer:
                raise Invalid(f"{node.name} makes {buffer.name}, which the program knows otherwise")
        for name in _read(node):
            if name not in known:
                raise Invalid(f"{node.name} reads {name}, which nobody has made")
        if isinstance(node, (LoopNode, ScatterNode)):
            verify_node(node, program.buffers)
        else:
            verify_views((node.arguments, node.keywords), program.buffers, node.name)
        known.update(buffer.name for buffer in _made(node))
    for view in views(program.outputs):
        if view.buffer not in known:
            raise Invalid(f"{view.buffer} is returned, and nobody has made it")
    verify_views(program.outputs, program.buffers, "the program's result")


def verify_node(node: LoopNode | ScatterNode, buffers: Mapping[str, Buffer]) -> None:
    symbols = [loop.symbol for loop in node.loops]
    verify_body(node.body, symbols, buffers, node.name)
    if any(isinstance(operation, Store) for operation in node.body):
        raise Invalid(f"{node.name}: a store in the body of a node")
    if isinstance(node, ScatterNode):
        _verify_scattered(node, symbols)
        return
    for result in node.results:
        _verify_result(node, result)


def verify_body(body: Body, symbols: Iterable[Symbol], buffers: Mapping[str, Buffer], where: str) -> None:
    """Every value after its arguments, of the type that its operation makes of theirs; every index inside its buffer."""
    declared = frozenset(symbols)
    for number, operation in enumerate(body):
        place = f"{where}, %{number}"
        if any(not 0 <= argument < number for argument in operation.arguments):
            raise Invalid(f"{place}: uses {operation.arguments}, of which not all come before it")
        given = [body[argument].dtype for argument in operation.arguments]
        _verify_types(operation, given, place)
        index = operation.index if isinstance(operation, (Load, Store, IndexValue)) else None
        if index is None:
            continue
        _verify_atoms(index, operation, declared, body, place)
        if isinstance(operation, (Load, Store)):
            _verify_access(operation, body, buffers, place)


# -- types


def _verify_types(operation: Operation, given: Sequence[torch.dtype], place: str) -> None:
    match operation:
        case Compute():
            _verify_computed(operation, given, place)
        case Constant():
            kind = bool if operation.dtype == torch.bool else float if operation.dtype.is_floating_point else int
            _same(type(operation.value), kind, f"{place}: the constant {operation.value!r}")
        case Reduce() | Scan():
            (argument,) = given
            made = torch.int64 if operation.kind in ("argmax", "argmin") else argument
            _same(operation.dtype, made, f"{place}: the type of {operation.kind}")
            if operation.kind in ("any", "all"):
                _same(argument, torch.bool, f"{place}: what {operation.kind} takes")
        case CheckIndex():
            _same((operation.dtype, *given), (torch.int64, torch.int64), f"{place}: the types of an index")
        case IndexValue():
            _same(operation.dtype, torch.int64, f"{place}: the type of an index's value")
        case Argument():
            if operation.dtype not in (torch.int64, torch.float64):
                raise Invalid(f"{place}: the number {operation.name} as {short_name(operation.dtype)}")


def _verify_computed(operation: Compute, given: Sequence[torch.dtype], place: str) -> None:
    rule = TABLE.get(operation.name)
    if rule is None:
        raise Invalid(f"{place}: no scalar operation is named {operation.name}")
    _same(len(given), rule.arity, f"{place}: the arguments of {operation.name}")
    if operation.name == "where":
        _same(given[0], torch.bool, f"{place}: the condition")
        given = given[1:]
    _same(len(set(given)), 1, f"{place}: the types of {operation.name}'s arguments ({', '.join(map(short_name, given))})")
    if given[0] == torch.bool and operation.name not in ALSO_OF_BOOLS:
        raise Invalid(f"{place}: {operation.name} of truth values")
    if rule.result != "cast":
        made = _FIXED.get(rule.result, given[0])
        _same(operation.dtype, made, f"{place}: the type of {operation.name}")


# -- indices


def _verify_atoms(index: Index, operation: Operation, declared: frozenset[Symbol], body: Body, place: str) -> None:
    loaded = index.loaded
    for symbol in index.symbols:
        if symbol not in declared:
            raise Invalid(f"{place}: {symbol} (of {symbol.extent}) is no loop here")
    guard = operation.guard if isinstance(operation, Load) else None
    if isinstance(operation, Store):
        expected = (*sorted(loaded), operation.value)
    else:
        expected = (*(() if guard is None else (guard,)), *sorted(loaded))
    _same(operation.arguments, expected, f"{place}: the values that it depends on")
    if guard is not None:
        _same(body[guard].dtype, torch.bool, f"{place}: its guard")
    for value in loaded:
        _same(body[value].dtype, torch.int64, f"{place}: its indirect index")


def _verify_access(operation: Load | Store, body: Body, buffers: Mapping[str, Buffer], place: str) -> None:
    buffer = buffers.get(operation.buffer)
    if buffer is None:
        raise Invalid(f"{place}: there is no buffer {operation.buffer}")
    dtype = operation.dtype if isinstance(operation, Load) else body[operation.value].dtype
    _same(dtype, buffer.dtype, f"{place}: the type of an element of {buffer.name}")
    if isinstance(operation, Load) and operation.guard is not None:
        return  # read only where the guard holds
    verify_inside(operation.index, body, buffer, place)


def verify_inside(index: Index, body: Body, buffer: Buffer, place: str) -> None:
    """An index that its bounds do not keep inside is looked at in places: bounds know nothing of atoms that belong together."""
    end = span(buffer.sizes, buffer.strides)
    low, high = bounds(index)
    if low >= 0 and high < end:
        return
    for values in points(index, body):
        found = value_at(index, values)
        if not 0 <= found < end:
            at = ", ".join(f"{atom} = {value}" for atom, value in values.items())
            raise Invalid(f"{place}: {index} is {found} at {at or 'every element'}, and {buffer.name} has elements 0 to {end - 1}")


def bounds(index: Index) -> tuple[int, int]:
    low = high = hint_of(index.constant)
    for atom, coefficient in index.terms:
        reach = hint_of(coefficient) * (hint_of(atom.extent) - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high


def points(index: Index, body: Body = ()) -> Iterator[dict[Atom, int]]:
    """Values of the loops and indirect indices: all that there are, or the corners and some between. None where a loop is empty."""
    atoms = list(dict.fromkeys(atom for atom in index.atoms if isinstance(atom, (Symbol, Loaded))))
    extents = [_extent_of(atom, body) for atom in atoms]
    if math.prod(extents) <= POINTS:
        places: Iterable[tuple[int, ...]] = itertools.product(*map(range, extents))
    else:
        draw = random.Random(0)
        corners = itertools.islice(itertools.product(*((0, extent - 1) for extent in extents)), POINTS)
        places = itertools.chain(corners, (tuple(map(draw.randrange, extents)) for _ in range(POINTS)))
    return (dict(zip(atoms, place, strict=True)) for place in places)


def _extent_of(atom: Symbol | Loaded, body: Body) -> int:
    """An index into a single row counts as one of two, so that it is not left out; the check in the body knows better."""
    checked = body[atom.value] if isinstance(atom, Loaded) and body else None
    extent = hint_of(atom.extent)
    return min(extent, hint_of(checked.extent)) if isinstance(checked, CheckIndex) else extent


def value_at(index: Index, values: Mapping[Atom, int]) -> int:
    total = hint_of(index.constant)
    for atom, coefficient in index.terms:
        total += hint_of(coefficient) * _atom_at(atom, values)
    return total


def _atom_at(atom: Atom, values: Mapping[Atom, int]) -> int:
    if isinstance(atom, (Quotient, Remainder)):
        inner, divisor = value_at(atom.dividend, values), hint_of(atom.divisor)
        return inner // divisor if isinstance(atom, Quotient) else inner % divisor
    return values[atom]


# -- results and views


def _verify_result(node: LoopNode, result: Result) -> None:
    place = f"{node.name}'s {result.buffer.name}"
    if not 0 <= result.value < len(node.body):
        raise Invalid(f"{place} is %{result.value}, and there is none")
    _same(node.body[result.value].dtype, result.buffer.dtype, f"{place}: its type")
    _same(len(result.strides), len(node.loops), f"{place}: its strides")
    sizes = [hint_of(loop.size) for loop in node.loops]
    if 0 in sizes:
        return
    strides = list(map(hint_of, result.strides))
    last = hint_of(result.offset) + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if min(strides, default=0) < 0 or last >= span(result.buffer.sizes, result.buffer.strides):
        raise Invalid(f"{place}: element {last} is written, beyond its end")
    if result.base is not None:
        return
    parts = sum(each.buffer.name == result.buffer.name for each in node.results)
    written = parts * math.prod(size for size, stride in zip(sizes, strides, strict=True) if stride)
    _same(written, distinct(result.buffer), f"{place}: the elements that are written")


def _verify_scattered(node: ScatterNode, symbols: Iterable[Symbol]) -> None:
    place = f"{node.name}'s {node.result.name}"
    _same(node.body[node.value].dtype, node.result.dtype, f"{place}: its type")
    strangers = node.index.symbols - frozenset(symbols)
    if strangers:
        raise Invalid(f"{place}: {', '.join(map(str, strangers))} is no loop here")
    if any(value >= len(node.body) for value in node.index.loaded):
        raise Invalid(f"{place}: its place is a value that is not there")
    verify_inside(node.index, node.body, node.result, place)


def verify_views(operands: object, buffers: Mapping[str, Buffer], where: str) -> None:
    """Tensors that are seen in a buffer lie in it. What a library returned may be larger than is known, and is not asked."""
    for view in views(operands):
        buffer = buffers.get(view.buffer)
        if buffer is None:
            raise Invalid(f"{where} takes {view.buffer}, which is no buffer")
        if 0 in map(hint_of, view.sizes):
            continue
        begin = hint_of(view.offset) * view.dtype.itemsize
        end = begin + span(view.sizes, view.strides) * view.dtype.itemsize
        if begin < 0 or end > span(buffer.sizes, buffer.strides) * buffer.dtype.itemsize:
            raise Invalid(f"{where} takes {view.buffer} from byte {begin} to {end}, beyond its end")


def views(operands: object) -> Iterator[TensorView]:
    if isinstance(operands, TensorView):
        yield operands
    elif isinstance(operands, (list, tuple)):
        for item in operands:
            yield from views(item)
    elif isinstance(operands, dict):
        yield from views(list(operands.values()))


def span(sizes: Iterable[object], strides: Iterable[object]) -> int:
    """How many elements there are from the first to the last."""
    pairs = [(hint_of(size), hint_of(stride)) for size, stride in zip(sizes, strides, strict=True)]
    return 0 if any(size == 0 for size, _ in pairs) else 1 + sum((size - 1) * stride for size, stride in pairs)


def distinct(buffer: Buffer) -> int:
    """How many places of the memory its elements have: fewer than elements where one is seen many times."""
    pairs = zip(buffer.sizes, buffer.strides, strict=True)
    return math.prod(size for size, stride in ((hint_of(a), hint_of(b)) for a, b in pairs) if stride or not size)


def _made(node: Node) -> Iterator[Buffer]:
    if isinstance(node, LoopNode):
        yield from (result.buffer for result in node.results)
    elif isinstance(node, ScatterNode):
        yield node.result
    else:
        yield from (result for result in node.results if isinstance(result, Buffer))


def _read(node: Node) -> Iterator[str]:
    if isinstance(node, ExternCall):
        yield from (view.buffer for view in views((node.arguments, node.keywords)))
        return
    yield from (operation.buffer for operation in node.body if isinstance(operation, Load))
    yield from (node.base,) if isinstance(node, ScatterNode) else node.bases


def _same(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise Invalid(f"{what}: {found}, not {wanted}")
