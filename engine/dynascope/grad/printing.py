"""A graph as readable, runnable Python: types as `f32[8, 64]`, and the user's line above the operators it became.

def forward(w: f32[64, 32], x: f32[8, 32]) -> tuple:
    # model.py:7: x = self.fc1(x)
    permute: f32[32, 64] = torch.ops.aten.permute.default(w, [1, 0])
    addmm: f32[8, 64] = torch.ops.aten.addmm.default(b, x, permute)
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import torch
from torch import fx

from dynascope.meta_kernels.type_names import type_of
from dynascope.report.facts import LineLink
from dynascope.report.span import Span

HEAD = (
    "from __future__ import annotations",
    "",
    "import operator",
    "",
    "import torch",
    "from torch import device, inf, nan",
)


def print_graph(
    module: fx.GraphModule, name: str = "forward", ends: Iterable[str] = ()
) -> tuple[str, tuple[LineLink, ...]]:
    """The text, and which of its lines came from which place of the user's. It runs where torch can be imported. `ends` say what it
    returns."""
    modules = list(_with_inner(module))
    types = sorted({kind for each in modules for node in each.graph.nodes for kind in _abbreviations_in(node)})
    lines = [*HEAD, *_imports(modules), "", ""]
    if types:
        lines[len(HEAD) - 1] += f"  # types: {', '.join(types)}"
    links: list[LineLink] = []
    _add_function(module, name, "", lines, links)
    lines[-1:] = [*(f"    # {words}" for words in ends), lines[-1]]
    return "\n".join(lines) + "\n", tuple(links)


def _with_inner(module: fx.GraphModule) -> Iterator[fx.GraphModule]:
    yield module
    for node in module.graph.nodes:
        for inner in _graphs_of(node.target).values():
            yield from _with_inner(inner)


def _graphs_of(target: Any) -> dict[str, fx.GraphModule]:
    """What a node's target holds that is a graph itself, by the field's name."""
    if not is_dataclass(target) or isinstance(target, type):
        return {}
    values = {field.name: getattr(target, field.name) for field in fields(target)}
    return {name: value for name, value in values.items() if isinstance(value, fx.GraphModule)}


def _add_function(module: fx.GraphModule, name: str, prefix: str, lines: list[str], links: list[LineLink]) -> None:
    """The functions that its nodes' graphs are, and then itself."""
    for node in module.graph.nodes:
        for field, inner in _graphs_of(node.target).items():
            _add_function(inner, f"{prefix}{node.name}_{field}", f"{prefix}{node.name}_", lines, links)
            lines.extend(("", ""))
    parameters = [n for n in module.graph.nodes if n.op == "placeholder"]
    lines.append(f"def {name}({', '.join(f'{n.name}{_annotation(n)}' for n in parameters)}) -> tuple:")
    body_start = len(lines)
    place: str | None = None
    last_use = _last_uses(module.graph)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            continue
        heading = _heading(node)
        if heading and heading != place:
            if len(lines) > body_start:
                lines.append("")
            lines.append(f"    # {heading}")
            place = heading
        lines.append("    " + _statement(node, module, prefix) + _released(last_use.get(node, ())))
        span = _span(node)
        if span is not None:
            links.append(LineLink(len(lines), span))


def _imports(modules: Sequence[fx.GraphModule]) -> list[str]:
    """What the operators are reached by, beyond torch."""
    nodes = [node for module in modules for node in module.graph.nodes]
    targets = [node.target for node in nodes if node.op == "call_function"]
    imports = {"import dynascope.graph_compiler" for target in targets if str(target).startswith("dynascope.")}
    imports |= {"from dynascope.random_numbers import filling" for target in targets if hasattr(target, "written_by")}
    for target in targets:
        if _graphs_of(target):
            imports |= {"from dynascope.autograd_functions import Written", f"import {type(target).__module__}"}
            imports |= {f"import {value.__module__}" for value in vars(target).values() if isinstance(value, FunctionType)}
        elif hasattr(target, "as_python"):
            imports |= target.as_python()[1]
        elif (home := _home(target)) is not None:
            imports.add(f"import {home}")
    if any(node.op == "get_attr" and _is_long(getattr(module, node.target)) for module in modules for node in module.graph.nodes):
        imports |= {"import base64", "import zlib"}
    return sorted(imports)


def _home(target: Any) -> str | None:
    """The module that a function's text is reached by, where that is not torch itself."""
    home = _qualified(target, getattr(target, "__name__", str(target))).rpartition(".")[0]
    module = getattr(target, "__module__", None)
    if module is None or home in HOMES or module in ("torch", "_operator") or not home.startswith(module):
        return None
    return module


def type_of_node(node: fx.Node) -> str:
    """`f32[s0, 64]` where a size varies; empty where nothing is known."""
    value, layout = _value(node), node.meta.get("layout")
    sizes = node.meta.get("sizes") if layout is None or isinstance(layout, list) else layout.sizes
    return "" if value is None else type_of(value, sizes)


def _abbreviations_in(node: fx.Node) -> list[str]:
    value = _value(node)
    return [type_of(value).split("[")[0]] if isinstance(value, torch.Tensor) else []


def _annotation(node: fx.Node) -> str:
    """Python has no words for `f32[]`: as torch prints it, it is a string."""
    kind = type_of_node(node)
    return "" if not kind else f': "{kind}"' if "[]" in kind else f": {kind}"


def _value(node: fx.Node) -> Any:
    """What describes the node's result: `val` in ATen graphs, `example_value` in captured ones."""
    return node.meta.get("val", node.meta.get("example_value"))


def _span(node: fx.Node) -> Span | None:
    stack = node.meta.get("user_stack")
    return stack[-1].span if stack else None


def _heading(node: fx.Node) -> str | None:
    span = _span(node)
    return span.quotation() if span is not None else None


def _statement(node: fx.Node, module: fx.GraphModule, prefix: str) -> str:
    if node.op == "output":
        return f"return {text_of(node.args[0])}"
    if node.op == "get_attr":
        return f"{node.name}{_annotation(node)} = {_constant_text(getattr(module, node.target))}"  # type: ignore[arg-type]
    return f"{node.name}{_annotation(node)} = {_call(node, prefix)}"


SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and_": "&", "or_": "|", "xor": "^",
}  # fmt: skip
PREFIXES = {"neg": "-", "invert": "~", "pos": "+"}
HOMES = {"torch": torch, "torch.nn.functional": torch.nn.functional, "torch._C._nn": torch._C._nn}


def _call(node: fx.Node, prefix: str) -> str:
    operands = [text_of(argument) for argument in node.args]
    named = [f"{key}={text_of(value)}" for key, value in node.kwargs.items()]
    if node.op == "call_method":
        return f"{operands[0]}.{node.target}({', '.join(operands[1:] + named)})"
    if graphs := _graphs_of(node.target):
        return f"{_constructor(node.target, graphs, f'{prefix}{node.name}_')}({', '.join(operands + named)})"
    name = getattr(node.target, "__name__", str(node.target))
    if getattr(node.target, "__module__", "") == "_operator":
        return _operator_text(name, operands)
    return f"{_qualified(node.target, name)}({', '.join(operands + named)})"


def _constructor(target: Any, graphs: dict[str, fx.GraphModule], prefix: str) -> str:
    """An object that holds graphs is made of the functions that they were printed as. What no `repr` shows computes nothing."""
    given = []
    for field in fields(target):
        if not field.repr:
            continue
        value = getattr(target, field.name)
        if field.name in graphs:
            text = f"Written({prefix}{field.name})"
        else:
            text = f"{value.__module__}.{value.__qualname__}" if isinstance(value, FunctionType) else text_of(value)
        given.append(f"{field.name}={text}")
    return f"{type(target).__module__}.{type(target).__qualname__}({', '.join(given)})"


def _operator_text(name: str, operands: list[str]) -> str:
    if name == "getitem":
        return f"{operands[0]}[{operands[1]}]"
    if name in SIGNS and len(operands) == 2:
        return f"{operands[0]} {SIGNS[name]} {operands[1]}"
    if name in PREFIXES:
        return f"{PREFIXES[name]}{operands[0]}"
    return f"operator.{name}({', '.join(operands)})"


def _qualified(target: Any, name: str) -> str:
    """How Python reaches a function: `torch.nn.functional.gelu`, `torch.ops.aten.add.Tensor`."""
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return f"torch.ops.{target}"
    if hasattr(target, "written_by"):
        return f"filling({_qualified(target.written_by, name)})"
    if hasattr(target, "as_python"):
        return target.as_python()[0]
    for home, module in HOMES.items():
        if getattr(module, name, None) is target:
            return f"{home}.{name}"
    return f"{getattr(target, '__module__', None) or 'torch'}.{getattr(target, '__qualname__', name)}"


def text_of(data: Any) -> str:
    if isinstance(data, fx.Node):
        return data.name
    if isinstance(data, (tuple, list)):
        inside = ", ".join(map(text_of, data))
        return f"[{inside}]" if isinstance(data, list) else f"({inside},)" if len(data) == 1 else f"({inside})"
    if isinstance(data, dict):
        return "{" + ", ".join(f"{key!r}: {text_of(value)}" for key, value in data.items()) + "}"
    if isinstance(data, float) and not math.isfinite(data):
        return "nan" if data != data else "inf" if data > 0 else "-inf"
    if isinstance(data, complex):
        return f"complex({text_of(data.real)}, {text_of(data.imag)})"
    return repr(data)


FEW = 64
LARGEST = 1 << 20
"""Elements that are written as numbers, and bytes that are written at all."""


def _is_long(value: torch.Tensor) -> bool:
    return value.numel() > FEW and value.nbytes <= LARGEST


def _constant_text(value: torch.Tensor) -> str:
    place = "" if value.device.type == "cpu" else f", device={value.device!r}"
    if value.numel() == 0:
        return f"torch.empty({list(value.shape)}, dtype={value.dtype}{place})"
    if value.numel() <= FEW:
        return f"torch.tensor({value.tolist()!r}, dtype={value.dtype}{place})"
    if value.nbytes > LARGEST:
        return f"torch.empty({list(value.shape)}, dtype={value.dtype}{place})  # a constant of {value.numel()} elements, not shown"
    contents = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    packed = base64.b85encode(zlib.compress(contents, 9)).decode()
    text = f"torch.frombuffer(bytearray(zlib.decompress(base64.b85decode({packed!r}))), dtype={value.dtype}).view({list(value.shape)})"
    return text if value.device.type == "cpu" else f"{text}.to({value.device!r})"


def _last_uses(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    """For each node, the values that it is the last to read."""
    order = {node: position for position, node in enumerate(graph.nodes)}
    found: dict[fx.Node, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.users:
            last = max(node.users, key=order.__getitem__)
            if last.op != "output":
                found.setdefault(last, []).append(node)
    return found


def _released(nodes: Any) -> str:
    return f";  {' = '.join(node.name for node in nodes)} = None" if nodes else ""
