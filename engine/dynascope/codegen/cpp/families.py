"""Kernels whose texts differ in sizes alone: one text serves them all, and each step passes its own numbers.

    cat_kernel_1   for (r1 ...; r1 < 8192; ...)  store(cat_3 + 40960 * r0 + r1, ...)
    cat_kernel_62  for (r1 ...; r1 < 512; ...)   store(cat_24 + 6144 * r0 + r1, ...)
    one text       for (r1 ...; r1 < given0; ...)  store(cat_3 + given1 * r0 + r1, ...)

A convolutional network has a few kernels, each for many numbers of channels, and building them is most of its first call. Only numbers
that count elements or steps in memory become arguments; what the compiler makes use of stays in the text, and kernels that differ there
stay apart: divisors, lanes and how many are left over, lengths of arrays, short loops, which are unrolled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from dynascope.codegen.cpp.names import identifier
from dynascope.codegen.kernels import Kernel
from dynascope.dataclass import dataclass

FEWEST = 2
"""Kernels for which one text is written."""
LARGEST_SHORT = 16
"""A loop of so many steps is unrolled."""
MOST_ARGUMENTS = 200
"""Numbers and buffers: the launcher takes 255."""

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*(?:(?<=[eE])[-+]\d+f?)?|<<=|>>=|<<|>>|\+\+|--|[-+*/%<>=!&|^]=|&&|\|\||::|->|\s+|.")
_FLOATING = re.compile(r"(\s*const (f32|f64) constant_\d+ = )(-?\d+\.\d+(?:e[-+]?\d+)?)f?(;)")
_WHOLE = re.compile(r"\d+")
_BEFORE = frozenset(["+", "-", "*", "<", "<=", "==", "?", ":"])
_AFTER = frozenset(["*", "+", "-", "?", ":"])
_NEVER_BEFORE = frozenset(["/", "%", "<<", ">>", "[", ",", "=", "+=", "."])
_NEVER_AFTER = frozenset(["/", "%", "<<", ">>"])
_DIVISIONS = frozenset("/%")
_ADDED_TO = "using namespace v"

Number = int | float


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text with its numbers taken out: `pieces` stand around `numbers`, which are as they are written, because 576 is no 576.0 and 0.0
    no -0.0; `key` is the same for kernels that the same text can serve, whatever their buffers are called."""

    pieces: tuple[str, ...]
    numbers: tuple[str, ...]
    key: tuple


def merged(kernels: Iterable[Kernel]) -> dict[str, tuple[Kernel, tuple[Number, ...]]]:
    """By a kernel's name: the kernel that serves in its place, and the numbers that it is called with. The others stay as they are."""
    alike: dict[tuple, list[Kernel]] = {}
    for kernel in kernels:
        if kernel.language == "cpp" and not kernel.share and not kernel.group.checks_indices and _ADDED_TO in kernel.text:
            alike.setdefault(_seen_at_once(kernel), []).append(kernel)
    families: dict[tuple, list[tuple[Kernel, Pattern]]] = {}
    for kernel in chain.from_iterable(group for group in alike.values() if len(group) >= FEWEST):
        pattern = pattern_of(kernel)
        families.setdefault(pattern.key, []).append((kernel, pattern))
    found = {}
    for family in families.values():
        if len(family) >= FEWEST:
            found |= _served(family)
    return found


def _seen_at_once(kernel: Kernel) -> tuple:
    """What kernels of one family have in common, without reading their texts."""
    return kernel.group.name, len(kernel.buffers), kernel.text.count("\n"), kernel.text.count("=")


def pattern_of(kernel: Kernel) -> Pattern:
    reader = _Reader(kernel)
    for line in kernel.text.splitlines(keepends=True):
        reader.read(line)
    return reader.pattern()


class _Reader:
    """Reads a kernel's text. `told` has each word as the key says it: what is called after buffers, by which buffers these are."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.told: dict[str, str] = {}
        self.names = {identifier(name): f"buffer {at}" for at, name in enumerate(kernel.buffers)} | {kernel.name: "kernel"}
        self.stems = {re.sub(r"\W", "_", name): f"buffer {at}" for at, name in enumerate(kernel.buffers)} | self.names
        self.pieces: list[str] = [""]
        self.numbers: list[str] = []
        self.key: list[str] = []

    def pattern(self) -> Pattern:
        kinds = tuple(map(_kind, self.numbers))
        own = () if len({*self.told.values()}) == len(self.told) else (self.kernel.name,)  # two words that would be told as one
        return Pattern(tuple(self.pieces), tuple(self.numbers), (*own, kinds, *self.key))

    def read(self, line: str) -> None:
        if line.lstrip().startswith("//"):
            self.pieces[-1] += line  # quotes of the program, which computes nothing
        elif (floating := _FLOATING.fullmatch(line.rstrip("\n"))) is not None:
            before, kind, number, after = floating.groups()
            self._keep(f"{before}({kind})")
            self._take(number)
            self._keep(f"{after}\n")
        elif line.lstrip().startswith("#"):
            self._keep(line)
        else:
            self._read_tokens(_TOKEN.findall(line))

    def _read_tokens(self, tokens: Sequence[str]) -> None:
        words = [each for each in tokens if not each.isspace()]
        is_once = words[:1] == ["long"] and words[3:4] == ["begin"]  # where a call begins, not where a row does
        at = 0
        for token in tokens:
            if token.isspace():
                self.pieces[-1] += token
                continue
            before = words[at - 1] if at else ""
            after = words[at + 1] if at + 1 < len(words) else ""
            at += 1
            if _is_given(token, before, after) or (is_once and before in _DIVISIONS and _WHOLE.fullmatch(token)):
                self._take(token)
            else:
                self._keep(token)

    def _keep(self, token: str) -> None:
        self.pieces[-1] += token
        told = self.told.get(token)
        if told is None:
            told = self.told[token] = self.names.get(token) or self._of_buffer(token)
        self.key.append(told)

    def _of_buffer(self, token: str) -> str:
        """What is named after a buffer, by which buffer it is: `cat_3_0` is the first value read of `cat_3`."""
        stem, _, rest = token.rpartition("_")
        while stem:
            if stem in self.stems:
                return f"{self.stems[stem]} {rest}"
            stem, _, part = stem.rpartition("_")
            rest = f"{part}_{rest}"
        return token

    def _take(self, number: str) -> None:
        self.key.append("a number")
        self.numbers.append(number)
        self.pieces.append("")


def _is_given(token: str, before: str, after: str) -> bool:
    """Whether it is a number of elements, of steps in memory, or an end of a long loop."""
    if not _WHOLE.fullmatch(token) or int(token) <= LARGEST_SHORT or before in _NEVER_BEFORE or after in _NEVER_AFTER:
        return False
    return before in _BEFORE or after in _AFTER


def differs(row: Sequence[str]) -> bool:
    """Whether it has to be given: what all kernels of a family have there stays in the text."""
    return len({*row}) > 1


def _served(family: Sequence[tuple[Kernel, Pattern]]) -> dict[str, tuple[Kernel, tuple[Number, ...]]]:
    first, pattern = family[0]
    rows = list(zip(*(each.numbers for _, each in family), strict=True))
    places = {row: f"given{at}" for at, row in enumerate(dict.fromkeys(filter(differs, rows)))}
    if len(first.buffers) + len(first.scalars) + len(places) > MOST_ARGUMENTS:
        return {}
    names = [*places.values(), "items", "work"]
    at = {name: number for number, name in enumerate(names, len(first.buffers) + len(first.scalars))}
    kinds = [_kind(row[0]) for row in places]
    numbers = [places.get(row, row[0]) for row in rows]
    text = "".join(chain.from_iterable(zip(pattern.pieces, [*numbers, ""], strict=True)))
    loads = [f"const {kind} {name} = *(const {kind}*)p[{at[name]}];" for name, kind in zip(names[:-2], kinds, strict=False)]
    head, namespace, rest = text.partition(_ADDED_TO)
    line, end, body = rest.partition("\n")
    share = f"{first.name}_share"
    text = (
        f"{head}{namespace}{line} {' '.join(loads)}{end}{body}"
        f"void {share}(void* const* p, long* items, double* work) {{\n"
        f"  *items = *(const i64*)p[{at['items']}];\n  *work = *(const f64*)p[{at['work']}];\n}}\n"
    )
    kernel = replace(first, text=_headed(text, len(family)), share=share)
    return {
        each.name: (kernel, (*(_number(row[at]) for row in places), int(each.items), float(each.work)))
        for at, (each, _) in enumerate(family)
    }


def _kind(number: str) -> str:
    return "i64" if _WHOLE.fullmatch(number) else "f64"


def _number(text: str) -> Number:
    return int(text) if _kind(text) == "i64" else float(text)


def _headed(text: str, count: int) -> str:
    """The first line says of what sizes the others are: those of the first of so many."""
    line, end, rest = text.partition("\n")
    return f"{line} (the first of {count} sizes){end}{rest}"
