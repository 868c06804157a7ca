"""A pointwise group whose body asks where it is, cut at the places where the answer changes.

    cat(x, y)[r0] = where(r0 < 512, x[r0], y[r0 - 512])     ->  r0 < 512: x[r0];   r0 < 256: y[r0], stored 512 further

Each segment is a kernel without tests or index values, whose loads are contiguous. A loop of a few steps that lie side by side is written
out instead, in one kernel:

    stack([x, y], 1)[r0, r1] = where(r1 < 1, x[r0], y[r0])  ->  x[r0], stored at 2 * r0, and y[r0], stored at 2 * r0 + 1

Only for the CPU, where a kernel call costs less than testing each element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.body import BodyBuilder, instantiate
from dynascope.loops.index import Atom, Extent, Index, Loaded, Symbol, substitute, variable
from dynascope.loops.inlining import without_unused
from dynascope.loops.nodes import Body, Compute, Constant, IndexValue, Load, Operation
from dynascope.sizes import ceil_divide, is_constant, known, nominal, same

MOST_SEGMENTS = 8
SHORTEST_SEGMENT = 8
MOST_TURNS = 4
"""Steps of a loop that are written out."""
LONGEST_TURN = 120
"""Operations of a body that is written out so."""
_QUESTIONS = ("less", "less_equal", "greater", "greater_equal")


def segments(body: Body, rows: tuple[Symbol, ...]) -> list[tuple[Body, tuple[Symbol, ...]]]:
    """Bodies and loops that together do what `body` over `rows` does; the one that was given, if nothing is gained."""
    questions = {n: q for n, op in enumerate(body) if (q := _question(body, op)) is not None}
    for symbol in rows:
        asked = {n: q for n, q in questions.items() if q.symbol == symbol}
        cuts = _cuts(symbol, asked)
        lengths = [end - begin for begin, end in zip(cuts, cuts[1:], strict=False)]
        inner = min((nominal(q.inner) for q in asked.values()), default=1)
        if 1 < len(lengths) <= MOST_SEGMENTS and min(map(nominal, lengths)) * inner >= SHORTEST_SEGMENT:
            places = zip(cuts, lengths, strict=False)
            return [_segment(body, rows, symbol, cut, length, asked) for cut, length in places]
        if len(lengths) > 1 and inner == 1 and _is_short(symbol) and len(body) <= LONGEST_TURN:
            return [(_written_out(body, symbol, asked), tuple(s for s in rows if s != symbol))]
    return [(body, rows)]


def _cuts(symbol: Symbol, asked: dict[int, _Question]) -> list[Extent]:
    """Where segments begin, and the end, in order; nothing where sizes that vary decide the order or an answer."""
    cuts: list[Extent] = [0, symbol.extent]
    for question in asked.values():
        inside = known("<", 0, question.cut), known("<", question.cut, symbol.extent)
        if inside == (True, True) and not any(same(question.cut, cut) for cut in cuts):
            before = [known("<", cut, question.cut) for cut in cuts]
            if None in before:
                return []
            cuts.insert(before.index(False), question.cut)
        elif None in inside and False not in inside:
            return []
    unclear = any(question.answer(cut) is None for question in asked.values() for cut in cuts[:-1])
    return [] if unclear else cuts


@dataclass(frozen=True, slots=True)
class _Question:
    """Whether `symbol` is before `cut` (or from it on). Each step of it is `inner` elements."""

    symbol: Symbol
    cut: Extent
    before: bool
    inner: Extent

    def answer(self, begin: Extent) -> bool | None:
        """None where the sizes themselves would have to be known."""
        is_before = known("<", begin, self.cut)
        return None if is_before is None else is_before == self.before


def _question(body: Body, operation: Operation) -> _Question | None:
    """The question that a comparison of a loop variable with a constant is."""
    if not isinstance(operation, Compute) or operation.name not in _QUESTIONS:
        return None
    left, right = (body[a] for a in operation.arguments)
    value = _number(right)
    if not isinstance(left, IndexValue) or value is None or not left.index.terms:
        return None
    (symbol, factor), *inner = left.index.terms
    if not all(isinstance(atom, Symbol) for atom, _ in inner):
        return None
    low, high = Index(tuple(inner), left.index.constant).bounds
    if not isinstance(symbol, Symbol) or not known(">", factor, 0):
        return None
    strict = operation.name in ("less", "greater_equal")
    limit = value if strict else value + 1
    # factor * symbol + inner < limit. The loops inside do not change the answer where both their ends agree.
    cut = ceil_divide(limit - low, factor)
    if not same(cut, ceil_divide(limit - high, factor)):
        return None
    return _Question(symbol, cut, operation.name in ("less", "less_equal"), high - low + 1)


def _number(operation: Operation) -> Extent | None:
    """The number that a value is in every iteration."""
    if isinstance(operation, Constant):
        return operation.value
    is_number = isinstance(operation, IndexValue) and operation.index.is_constant
    return operation.index.constant if is_number else None


def _segment(
    body: Body, rows: tuple[Symbol, ...], symbol: Symbol, begin: Extent, length: Extent, asked: dict[int, _Question]
) -> tuple[Body, tuple[Symbol, ...]]:
    part = Symbol(f"{symbol.name}_{begin}", length)
    once = is_constant(length, 1)
    moved = Index((), begin) if once else variable(part) + begin
    known = {n: question.answer(begin) for n, question in asked.items()}
    loops = tuple(part if s == symbol else s for s in rows if s != symbol or not once)
    return _folded(body, symbol, moved, known), loops


def _is_short(symbol: Symbol) -> bool:
    return isinstance(symbol.extent, int) and symbol.extent <= MOST_TURNS


def _written_out(body: Body, symbol: Symbol, asked: dict[int, _Question]) -> Body:
    """One body for all steps of a loop, one after the other: what does not depend on it is computed once."""
    builder = BodyBuilder(body[0].origin)
    for step in range(symbol.extent):  # type: ignore[arg-type]
        _write_folded(builder, body, symbol, Index((), step), {n: question.answer(step) for n, question in asked.items()})
    return without_unused(builder.body)


def _folded(body: Body, symbol: Symbol, moved: Index, known: dict[int, bool]) -> Body:
    """The body with the known answers in it, and without what they make needless."""
    builder = BodyBuilder(body[0].origin)
    _write_folded(builder, body, symbol, moved, known)
    return without_unused(builder.body)


def _write_folded(builder: BodyBuilder, body: Body, symbol: Symbol, moved: Index, known: Mapping[int, bool | None]) -> None:
    numbers: dict[int, int] = {}

    def replaced(atom: Atom) -> Index | None:
        if isinstance(atom, Loaded):
            return variable(Loaded(numbers[atom.value], atom.extent))
        return moved if atom == symbol else None

    for number, operation in enumerate(body):
        if number in known:
            numbers[number] = builder.append(Constant(torch.bool, (), operation.origin, bool(known[number])))
        elif (chosen := _chosen(operation, builder, numbers)) is not None:
            numbers[number] = chosen
        else:
            new = instantiate(operation, numbers.__getitem__, lambda i: substitute(i, replaced))
            numbers[number] = builder.append(_without_known_guard(new, builder))


def _chosen(operation: Operation, builder: BodyBuilder, numbers: dict[int, int]) -> int | None:
    """What is left of a `where` or `and` with a known operand, or of a load whose guard is known to fail."""
    arguments = [numbers[a] for a in operation.arguments]
    if isinstance(operation, Load) and operation.guard is not None:
        if _truth(builder, numbers[operation.guard]) is False:
            zero = False if operation.dtype == torch.bool else 0.0 if operation.dtype.is_floating_point else 0
            return builder.append(Constant(operation.dtype, (), operation.origin, zero))
        return None
    if not isinstance(operation, Compute):
        return None
    if operation.name == "where" and (truth := _truth(builder, arguments[0])) is not None:
        return arguments[1] if truth else arguments[2]
    if operation.name == "and" and operation.dtype == torch.bool:
        for mine, other in (arguments, arguments[::-1]):
            if (truth := _truth(builder, mine)) is not None:
                return other if truth else mine
    return None


def _without_known_guard(operation: Operation, builder: BodyBuilder) -> Operation:
    if isinstance(operation, Load) and operation.guard is not None and _truth(builder, operation.guard):
        return replace(operation, arguments=tuple(sorted(operation.index.loaded)), guard=None)
    return operation


def _truth(builder: BodyBuilder, number: int) -> bool | None:
    operation = builder.operations[number]
    return bool(operation.value) if isinstance(operation, Constant) and operation.dtype == torch.bool else None
