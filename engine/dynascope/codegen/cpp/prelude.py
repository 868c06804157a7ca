"""The types and functions that a unit's kernels use, at the head of the unit: scalars, then vectors of each width.

    prelude((16,), kernels)     ->  what `kernels` mention, and what that mentions

The headers are cut into pieces, so that the compiler reads only what is used (reading all of it takes longer than
compiling a kernel). A line `//: load store / f32 F32` begins a piece that defines load and store for f32: it is taken
where one of the names and one of the types is mentioned. `//:` alone begins a piece that is always taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import resources

from dynascope.codegen.cpp.expressions import OF_LIBRARY, RARE, RARE_PAIRS
from dynascope.dataclass import dataclass

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    names: frozenset[str]
    types: frozenset[str]
    words: frozenset[str]

    def used_by(self, words: set[str]) -> bool:
        return not self.names or bool(self.names & words and (not self.types or self.types & words))


def prelude(lane_counts: Iterable[int], kernels: str) -> str:
    """The head of a unit that consists of `kernels`."""
    pieces = [piece for part in (_scalar(), *map(_lanes, lane_counts)) for piece in part]
    words, taken, grew = set(_WORD.findall(kernels)), set(), True
    while grew:
        grew = False
        for number, piece in enumerate(pieces):
            if number not in taken and piece.used_by(words):
                taken.add(number)
                words |= piece.words
                grew = True
    return "".join(piece.text for number, piece in enumerate(pieces) if number in taken)


def random_numbers(lane_counts: Iterable[int], kernels: str) -> str:
    """What follows the prelude where `kernels` make random numbers; the others are not made to wait for its compilation."""
    if "random_" not in kernels:
        return ""
    return "\n" + "\n".join(_resource("random.h").replace("@N@", str(count)) for count in lane_counts)


@cache
def prelude_names() -> frozenset[str]:
    """Every name that some unit's prelude may hold."""
    words = {word for part in (_scalar(), _lanes(4)) for piece in part for word in piece.words}
    return frozenset(words | set(_WORD.findall(random_numbers((4,), "random_"))))


@cache
def _scalar() -> tuple[_Piece, ...]:
    return _pieces(_filled(_resource("scalar.h"), {"F": "f32", "I": "i32", "MASK": "mask"}, _rare_scalar()))


@cache
def _lanes(count: int) -> tuple[_Piece, ...]:
    text = _filled(_resource("vector.h"), {"F": "F32", "I": "I32", "MASK": "M"}, _rare_lanes())
    for name in ("doubles", "wide", "angles"):
        text = text.replace(f"@{name.upper()}@", _resource(f"{name}.h"))
    return _pieces(text.replace("@N@", str(count)))


def _pieces(text: str) -> tuple[_Piece, ...]:
    pieces = []
    for part in re.split(r"^(?=//:)", text, flags=re.M):
        head, _, rest = part.partition("\n") if part.startswith("//:") else ("//:", "", part)
        names, _, types = head.removeprefix("//:").partition("/")
        pieces.append(_Piece(rest, frozenset(names.split()), frozenset(types.split()), frozenset(_WORD.findall(rest))))
    return tuple(pieces)


def _filled(text: str, types: dict[str, str], rare: str) -> str:
    """The mathematics are the same text for one element and for lanes."""
    mathematics = re.sub(r"\b(F|I|MASK)\b", lambda match: types[match[0]], _resource("mathematics.h"))
    return text.replace("@MATHEMATICS@", mathematics).replace("@RARE@", rare)


def _rare_scalar() -> str:
    lines = []
    for name, function in (RARE | RARE_PAIRS).items():
        if name != "fmod":
            parameters, arguments = ("{0} x, {0} y", "x, y") if name in RARE_PAIRS else ("{0} x", "x")
            lines.append(f"//: {function}")
            lines += [
                f"INLINE {t} {function}({parameters.format(t)}) {{ return {name}{suffix}({arguments}); }}"
                for t, suffix in (("f32", "f"), ("f64", ""))
            ]
    return "\n".join(lines)


def _rare_lanes() -> str:
    lines = []
    for name, function in (RARE | RARE_PAIRS).items():
        parameters, arguments = ("{0} x, {0} y", "x[k], y[k]") if name in RARE_PAIRS else ("{0} x", "x[k]")
        for t, suffix in (("F32", "f"), ("F64", "")):
            if name in OF_LIBRARY[t]:
                lines.append(f"//: {function} / {t.lower()} {t}")
                lines.append(
                    f"INLINE {t} {function}({parameters.format(t)}) "
                    f"{{ {t} r; for (int k = 0; k < N; k++) r[k] = {name}{suffix}({arguments}); return r; }}"
                )
    return "\n".join(lines)


def _resource(name: str) -> str:
    return resources.files("dynascope.codegen.cpp").joinpath(name).read_text()
