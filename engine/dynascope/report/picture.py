"""A picture of one graph as it runs: steps from top to bottom, each with the user's lines that it computes, and the tensors between.

    x f32[32, 64] ->  | k0 mean_mul       1 KiB |
                      | 10  y = norm(x)         |
                            | y f32[32, 64]  8.0 KiB
                      | addmm          library  |  <- f32[64], from further above

picture(graph, "forward")  ->  "<svg ...>"

It loads nothing and runs nothing. `data-file` and `data-line` say where a part leads; `anchors` makes links of those instead, where
what shows the picture runs no script. What the graph is given comes in on the left, its results leave there; tensors that wait for
a later step go down on the right.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import groupby

from dynascope.dataclass import dataclass
from dynascope.report.facts import GraphFact, Phase, StepFact, TensorFact
from dynascope.report.span import Span

Anchor = Callable[[Span | str], str]
"""The address of a place, or of a kernel by its identifier."""
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
LEFT, BOX, PORTS, LANE = 288, 352, 178, 14
MOST_LANES = 24
FEWEST_LETTERS, MOST_LETTERS = 33, 52
"""What stands left of the boxes. With the fewest the boxes are in sight in half a window."""
LETTER, ROW, HEAD, PORT, PADDING = 6.9, 16, 24, 17, 8
GAP = 22
STYLE = """
.dynascope-picture { font: 11.5px ui-monospace, 'Cascadia Code', Menlo, Consolas, monospace; }
.dynascope-picture text { fill: var(--vscode-editor-foreground, currentColor); }
.dynascope-picture .dim { opacity: .62; }
.dynascope-picture .name { font-weight: 600; }
.dynascope-picture rect.box { fill: var(--vscode-editorWidget-background, transparent); stroke: currentColor; stroke-opacity: .35; }
.dynascope-picture rect.kernel { stroke: var(--vscode-charts-blue, #3b82c4); stroke-opacity: .9; }
.dynascope-picture rect.place { fill: transparent; }
.dynascope-picture .part { cursor: pointer; }
.dynascope-picture .part:hover rect.place, .dynascope-picture .part:focus rect.place { fill: currentColor; fill-opacity: .08; }
.dynascope-picture .here rect.place { fill: var(--vscode-charts-yellow, #c9a227); fill-opacity: .22; }
.dynascope-picture path { fill: none; stroke: currentColor; stroke-opacity: .45; }
.dynascope-picture .edge:hover path { stroke: var(--vscode-charts-blue, #3b82c4); stroke-opacity: 1; }
.dynascope-picture polygon { fill: currentColor; fill-opacity: .55; }
"""


@dataclass(frozen=True, slots=True)
class _Edge:
    tensor: TensorFact
    source: int
    target: int


@dataclass(slots=True)
class _Box:
    """A step and what lies around it. `text` are its rows: a place, and the operators computed for it."""

    step: StepFact
    rows: list[tuple[Span | None, list[str]]]
    given: list[TensorFact]
    results: list[TensorFact] = field(default_factory=list)
    waiting: list[_Edge] = field(default_factory=list)
    """Tensors from steps further above."""
    following: list[TensorFact] = field(default_factory=list)
    """Tensors for the next step."""
    top: float = 0.0

    @property
    def height(self) -> float:
        rows = sum(len(text) for _, text in self.rows)
        ports = max(len(self.given) + len(self.results), len(self.waiting)) * PORT
        return max(HEAD + rows * ROW + PADDING, HEAD + ports)


def picture(
    graph: GraphFact,
    phase: Phase,
    anchor: Anchor | None = None,
    costs: Mapping[str, str] | None = None,
    most_letters: int = FEWEST_LETTERS,
) -> str:
    """An SVG element; empty where no step of the phase is known. `costs` are words for the heads of steps, by kernel. Left of the boxes
    is as much room as the longest name takes, up to `most_letters`."""
    steps = [step for step in graph.steps if step.phase == phase]
    if not steps:
        return ""
    boxes = _boxes(steps)
    top = PADDING
    for box in boxes:
        box.top = top
        top += box.height + GAP + len(box.following) * PORT
    most = max((tensor.bytes or 0 for step in steps for tensor in (*step.reads, *step.writes)), default=0)
    lanes = _lanes([edge for box in boxes for edge in box.waiting])
    parts = [part for edge, lane in lanes for part in _waiting(boxes, edge, lane, most)]
    names = [_described(tensor, 1000) for box in boxes for tensor in (*box.given, *box.results)]
    letters = min(max(FEWEST_LETTERS, *map(len, names), 0), most_letters)
    for box in boxes:
        parts += [*_drawn(box, anchor, costs or {}), *_ports(box, most, letters), *_followed(box, most)]
    start = math.floor((FEWEST_LETTERS - letters) * LETTER)
    width = LEFT + BOX + PORTS + LANE * (1 + max((lane for _, lane in lanes), default=-1) + 1) - start
    size = f'width="{width:g}" height="{top:g}" viewBox="{start} 0 {width:g} {top:g}"'
    title = f"Graph {graph.identifier}, {phase}: {len(steps)} steps"
    return (
        f'<svg class="dynascope-picture" role="img" aria-label="{title}" {size}>'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>"
    )


def _boxes(steps: list[StepFact]) -> list[_Box]:
    boxes = []
    made: dict[str, int] = {}
    read: set[tuple[int, str]] = set()
    for number, step in enumerate(steps):
        box = _Box(step, list(_rows(step)), [])
        for tensor in step.reads:
            source = made.get(tensor.name)
            if source is None:
                box.given.append(tensor)
                continue
            read.add((source, tensor.name))
            if source == number - 1:
                boxes[source].following.append(tensor)
            else:
                box.waiting.append(_Edge(tensor, source, number))
        made.update((tensor.name, number) for tensor in step.writes)
        boxes.append(box)
    for number, box in enumerate(boxes):
        box.results = [tensor for tensor in box.step.writes if (number, tensor.name) not in read]
    return boxes


def _rows(step: StepFact) -> Iterator[tuple[Span | None, list[str]]]:
    """For each place one after the other: the user's line, then the operators that it became."""
    letters = int((BOX - 24) / LETTER)
    for (_, line), found in groupby(step.operations, key=lambda o: (o.span.file, o.span.line) if o.span else ("", 0)):
        operations = list(found)
        span = operations[0].span
        names = [f"{name} ×{count}" if count > 1 else name for name, count in _counted(operations)]
        text = [] if span is None else [_cut(f"{line}  {span.source_line()}", letters)]
        yield span, [*text, *_wrapped(names, letters - 4)]


def _counted(operations: list) -> Iterator[tuple[str, int]]:
    for name, found in groupby(operations, key=lambda operation: short_operator(operation.operator)):
        yield name, len(list(found))


def short_operator(operator: str) -> str:
    """`aten.var_mean.correction` is `var_mean`; operators of other libraries keep theirs."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 and parts[0] in ("aten", "prims") else operator


def _wrapped(names: list[str], letters: int) -> Iterator[str]:
    line = ""
    for name in names:
        joined = f"{line} · {name}" if line else name
        if len(joined) > letters and line:
            yield f"    {line}"
            joined = name
        line = joined
    yield f"    {_cut(line, letters)}"


def _lanes(edges: list[_Edge]) -> list[tuple[_Edge, int]]:
    """Side by side where they pass each other, the shortest nearest to the boxes."""
    taken: list[list[tuple[int, int]]] = []
    placed = []
    for edge in sorted(edges, key=lambda edge: (edge.target - edge.source, edge.source)):
        free = (n for n, spans in enumerate(taken) if all(edge.target <= a or b <= edge.source for a, b in spans))
        lane = next(free, len(taken))
        if lane == len(taken) and lane < MOST_LANES:
            taken.append([])
        lane = min(lane, MOST_LANES - 1)
        taken[lane].append((edge.source, edge.target))
        placed.append((edge, lane))
    return placed


def _drawn(box: _Box, anchor: Anchor | None, costs: Mapping[str, str]) -> Iterator[str]:
    step, kernel = box.step, box.step.kernel
    called = " · ".join(dict.fromkeys(short_operator(operation.operator) for operation in step.operations))
    name = f"{kernel} {step.name}" if kernel else called or step.name.removeprefix("call_")
    note = costs.get(kernel, "kernel") if kernel else "library"
    yield (
        f'<rect class="box {"kernel" if kernel else "library"}" x="{LEFT}" y="{box.top:g}" width="{BOX}" '
        f'height="{box.height:g}" rx="4"/>'
    )
    letters = int((BOX - 28) / LETTER) - len(note)
    head = _text(LEFT + 10, box.top + 16, _cut(name, letters), "name") + _text(
        LEFT + BOX - 10, box.top + 16, note, "dim", "end"
    )
    if kernel:
        area = f'<rect class="place" x="{LEFT + 3}" y="{box.top + 2:g}" width="{BOX - 6}" height="{HEAD - 4}" rx="3"/>'
        head = _anchored(f'<g class="part" tabindex="0" data-kernel="{kernel}">{area}{head}</g>', kernel, anchor)
    yield head
    y = box.top + HEAD
    for span, texts in box.rows:
        shown = "".join(
            _text(LEFT + 10, y + 12 + n * ROW, text, "" if n == 0 and span is not None else "dim")
            for n, text in enumerate(texts)
        )
        yield _linked(span, y, len(texts), shown, anchor)
        y += len(texts) * ROW


def _linked(span: Span | None, y: float, rows: int, shown: str, anchor: Anchor | None) -> str:
    if span is None:
        return shown
    area = f'<rect class="place" x="{LEFT + 3}" y="{y:g}" width="{BOX - 6}" height="{rows * ROW:g}" rx="3"/>'
    title = f"<title>{html.escape(span.quotation())}</title>"
    place = f'data-file="{html.escape(span.file)}" data-line="{span.line}"'
    return _anchored(f'<g class="part" tabindex="0" {place}>{title}{area}{shown}</g>', span, anchor)


def _anchored(part: str, target: Span | str, anchor: Anchor | None) -> str:
    return f'<a href="{html.escape(anchor(target))}">{part}</a>' if anchor is not None else part


def _ports(box: _Box, most: int, letters: int) -> Iterator[str]:
    """What the graph is given for this step, and those of its results that no other step reads."""
    y = box.top + HEAD
    for tensor in box.given:
        yield _edge(tensor, f"M{LEFT - 46},{y:g} H{LEFT - 7}", most, _arrow(LEFT, y, 1))
        yield _text(LEFT - 52, y + 4, _described(tensor, letters), "dim", "end")
        y += PORT
    for tensor in box.results:
        yield _edge(tensor, f"M{LEFT},{y:g} H{LEFT - 39}", most, _arrow(LEFT - 46, y, -1))
        yield _text(LEFT - 52, y + 4, _described(tensor, letters), "", "end")
        y += PORT


def _followed(box: _Box, most: int) -> Iterator[str]:
    """To the next step: lines side by side from the middle, each with its words."""
    bottom, height = box.top + box.height, GAP + len(box.following) * PORT
    x = LEFT + 40
    for number, tensor in enumerate(box.following):
        at = x + number * 14
        yield _edge(tensor, f"M{at},{bottom:g} V{bottom + height - 7:g}", most, _arrow_down(at, bottom + height))
        label = bottom + 15 + (len(box.following) - 1 - number) * PORT
        yield _text(x + len(box.following) * 14 + 2, label, _described(tensor, 60), "dim")


def _waiting(boxes: list[_Box], edge: _Edge, lane: int, most: int) -> Iterator[str]:
    source, target = boxes[edge.source], boxes[edge.target]
    right = LEFT + BOX
    x = right + PORTS + lane * LANE
    start = source.top + source.height - 8
    end = target.top + HEAD + target.waiting.index(edge) * PORT
    path = f"M{right},{start:g} H{x - 6} q6,0 6,6 V{end - 6:g} q0,6 -6,6 H{right + 7}"
    yield _edge(edge.tensor, path, most, _arrow(right, end, -1))
    yield _text(right + 12, end - 5, _described(edge.tensor, 25), "dim")


def _edge(tensor: TensorFact, path: str, most: int, arrow: str) -> str:
    """The more bytes, the wider."""
    share = math.sqrt((tensor.bytes or 0) / most) if most else 0.0
    title = html.escape(_described(tensor, 1000))
    return f'<g class="edge"><title>{title}</title><path d="{path}" stroke-width="{1 + 2 * share:.1f}"/>{arrow}</g>'


def _arrow(x: float, y: float, direction: int) -> str:
    back = x - 7 * direction
    return f'<polygon points="{x:g},{y:g} {back:g},{y - 3.5:g} {back:g},{y + 3.5:g}"/>'


def _arrow_down(x: float, y: float) -> str:
    return f'<polygon points="{x:g},{y:g} {x - 3.5:g},{y - 7:g} {x + 3.5:g},{y - 7:g}"/>'


def _described(tensor: TensorFact, letters: int) -> str:
    """The name gives way last: `self.attention.qkv.weight 3.0 KiB`. What the program has no name for is called by its type."""
    moved = f" {readable_bytes(tensor.bytes)}" if tensor.bytes is not None else ""
    kind, bracket, _ = tensor.description.partition("]")  # without the device
    name = tensor.called
    if not name:
        whole = f"{tensor.description}{moved}"
        return whole if len(whole) <= letters else f"{kind}{bracket}{moved}"
    rests = (f" {tensor.description}{moved}", f" {kind}{bracket}{moved}", moved, "")
    rest = next((each for each in rests if len(name) + len(each) <= letters), None)
    return f"…{name[1 - letters :]}" if rest is None else f"{name}{rest}"


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    end = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:g}" y="{y:g}" xml:space="preserve"{kind}{end}>{html.escape(text, quote=False)}</text>'


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def readable_bytes(number: int) -> str:
    amount, unit = float(number), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {UNITS[unit]}" if unit else f"{number} B"
