"""A comparison of captures as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from dynascope.captures.comparing import Comparison, Proof, Row
from dynascope.report.tables import table, wrapped


def comparison_text(comparison: Comparison, graphs: bool = True, width: int = 0) -> str:
    """`width` of the terminal; 0: as wide as it is. Graphs are printed as they are."""
    return "\n".join(_lines(comparison, graphs, width))


def as_json(comparison: Comparison) -> dict[str, Any]:
    rows = [{**asdict(row), "is_sound": row.is_sound} for row in comparison.rows]
    return {"function": comparison.function, "eager_seconds": comparison.eager_seconds, "notes": list(comparison.notes), "rows": rows}


def comparison_markdown(comparison: Comparison) -> str:
    lines = [f"# Captures of `{comparison.function}`", "", "| | captured | to capture | a call beyond eager's | holds |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for row in comparison.rows:
        lines.append(f"| {' | '.join((row.system, *_cells(row)))} |")
    lines += ["", *comparison.notes] if comparison.notes else []
    for row in comparison.rows:
        lines += ["", f"## {row.system}", ""]
        lines += [f"- {words}" for words in _details(row)]
        for piece in row.pieces:
            lines += ["", "```python", piece, "```"]
    return "\n".join(lines) + "\n"


def _lines(comparison: Comparison, graphs: bool, width: int) -> Iterator[str]:
    rows = [("", "captured", "to capture", "a call beyond eager's", "holds")]
    rows += [(row.system, *_cells(row)) for row in comparison.rows]
    yield f"{comparison.function}, a call of eager's takes {comparison.eager_seconds * 1e6:.0f} µs"
    for told in table(rows, width):
        yield from told
    for note in comparison.notes:
        yield from wrapped(note, width)
    for row in comparison.rows:
        yield ""
        yield row.system
        for words in _details(row):
            yield from (f"    {line}" for line in wrapped(words, width and width - 4))
        if graphs:
            for number, piece in enumerate(row.pieces, 1):
                yield f"    graph {number} of {len(row.pieces)}:"
                yield from (f"        {line}" for line in piece.splitlines())


def _cells(row: Row) -> tuple[str, ...]:
    if row.is_missing:
        return "missing", "", "", ""
    if not row.captured:
        return "no", f"{row.seconds or 0:.3f} s", "", ""
    pieces = "1 graph" if len(row.pieces) == 1 else f"{len(row.pieces)} graphs"
    overhead = "" if row.overhead is None else f"{round(row.overhead * 1e6) or 0:+d} µs"
    wrong = sum(proof.found is not None and not proof.is_said for proof in row.proofs)
    refused = sum(proof.is_said for proof in row.proofs)
    if not row.proofs:
        return pieces, f"{row.seconds or 0:.3f} s", overhead, "not tried"
    holds = f"no, wrong on {wrong} of {len(row.proofs)} calls" if wrong else f"on {len(row.proofs) - refused} of {len(row.proofs)} calls"
    return pieces, f"{row.seconds or 0:.3f} s", overhead, holds + (f", {refused} refused" if refused else "")


def _details(row: Row) -> Iterator[str]:
    if row.failure:
        yield row.failure.rstrip(": ")
    yield from row.notes
    same: dict[tuple[bool, str], list[Proof]] = {}
    for proof in row.proofs:
        if proof.found is not None:
            same.setdefault((proof.is_said, proof.found), []).append(proof)
    for (is_said, found), proofs in same.items():
        yield f"{'raises' if is_said else 'UNSOUND'}, {'; '.join(map(_call_words, proofs))}: {found}"


def _call_words(proof: Proof) -> str:
    lines = f"line{'s' * (len(proof.lines) > 1)} {', '.join(map(str, proof.lines))}"
    return f"{proof.call}{f' (eager runs {lines} then)' if proof.lines else ''}"
