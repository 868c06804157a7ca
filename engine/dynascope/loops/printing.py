"""Loop programs and bodies as text, with the user's line above each node.

# model.py:3: y = x.sum(1)
y = reduction(i0: 4, c1: 8)
    %0 = load x[8*i0 + c1]                  f32
    %1 = reduce sum %0                      f32
    y[i0] = %1                              f32[4]
"""

from __future__ import annotations

from typing import Any

from dynascope.loops.dtypes import short_name
from dynascope.loops.index import Extent, Symbol, affine
from dynascope.loops.nodes import (
    Argument,
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
    Origin,
    Reduce,
    ScalarInput,
    Scan,
    ScatterNode,
    Store,
    TensorView,
    is_row_major,
)
from dynascope.report.facts import LineLink
from dynascope.sizes import Size, is_constant


def print_program(program: LoopProgram) -> str:
    """The whole program. Deterministic."""
    return print_program_with_links(program)[0]


def print_program_with_links(program: LoopProgram) -> tuple[str, tuple[LineLink, ...]]:
    """The text, and which of its lines came from which place of the user's."""
    lines = [f"program {program.name}({', '.join(describe_input(i) for i in program.inputs)})"]
    links: list[LineLink] = []
    for node in program.nodes:
        lines.append("")
        if node.origin.span is not None:
            links.append(LineLink(len(lines) + 2, node.origin.span))
        lines.extend(print_node(node).splitlines())
    lines += ["", f"return {', '.join(describe(o) for o in program.outputs)}"]
    return "\n".join(lines) + "\n", tuple(links)


def print_node(node: Node) -> str:
    if isinstance(node, ExternCall):
        return f"{source_comment(node.origin)}\n{_print_extern(node)}"
    if isinstance(node, ScatterNode):
        return f"{source_comment(node.origin)}\n{_print_scatter(node)}"
    return f"{source_comment(node.origin)}\n{_print_loops(node)}"


def source_comment(origin: Origin) -> str:
    span = origin.span
    if span is None:
        return f"# {origin.operator}"
    return f"# {span.quotation()}"


def _print_loops(node: LoopNode) -> str:
    loops = ", ".join(f"{loop.symbol}: {loop.size}" for loop in node.loops)
    names = dict.fromkeys(result.buffer.name for result in node.results)
    lines = [f"{', '.join(names)} = {node.kind}({loops})  # {node.origin.operator}"]
    lines += [f"    {line}" for line in print_body(node.body)]
    for result in node.results:
        index = affine({loop.symbol: s for loop, s in zip(node.loops, result.strides, strict=True)}) + result.offset
        begins = "" if result.base is None else f" over {result.base}"
        lines.append(
            "    " + _typed(f"{result.buffer.name}[{index}] = %{result.value}{begins}", describe_buffer(result.buffer))
        )
    return "\n".join(lines)


def _print_scatter(node: ScatterNode) -> str:
    loops = ", ".join(f"{loop.symbol}: {loop.size}" for loop in node.loops)
    sign = "+=" if node.mode == "add" else "="
    lines = [f"{node.result.name} = scatter({loops}) into {node.base}  # {node.origin.operator}"]
    lines += [f"    {line}" for line in print_body(node.body)]
    lines.append(
        "    " + _typed(f"{node.result.name}[{node.index}] {sign} %{node.value}", describe_buffer(node.result))
    )
    return "\n".join(lines)


def print_body(body: tuple[Operation, ...]) -> list[str]:
    return [print_operation(number, operation) for number, operation in enumerate(body)]


def print_operation(number: int, operation: Operation) -> str:
    if isinstance(operation, Store):
        sign = {"set": "=", "add": "+=", "sum": "= sum of rows"}[operation.mode]
        return f"store {operation.buffer}[{operation.index}] {sign} %{operation.value}"
    return _typed(f"%{number} = {_expression(operation)}", short_name(operation.dtype))


def _expression(operation: Operation) -> str:
    arguments = ", ".join(f"%{a}" for a in operation.arguments)
    match operation:
        case Load():
            guard = "" if operation.guard is None else f" if %{operation.guard}"
            return f"load {operation.buffer}[{operation.index}]{guard}"
        case Constant():
            return f"constant {operation.value!r}"
        case Argument():
            return f"argument {operation.name}"
        case IndexValue():
            return f"index {operation.index}"
        case CheckIndex():
            return f"check_index {arguments} < {operation.extent}"
        case Compute():
            return f"{operation.name} {arguments}"
        case Reduce():
            return f"reduce {operation.kind} {arguments}"
        case Scan():
            return f"scan {operation.kind} {arguments}"
    raise TypeError(f"unknown operation {type(operation).__name__}")


def _typed(text: str, dtype: str) -> str:
    return f"{text:<48}{dtype}"


def _print_extern(node: ExternCall) -> str:
    results = ", ".join(r.name if r is not None else "_" for r in node.results)
    operands = [describe(a) for a in node.arguments] + [f"{k}={describe(v)}" for k, v in node.keywords.items()]
    why = f"  # {node.why}" if node.why else ""
    return f"{results} = extern {node.origin.operator}({', '.join(operands)}){why}"


def describe(value: Any) -> str:
    """An operand or output as text."""
    if isinstance(value, TensorView):
        sizes, strides = size_list(value.sizes), size_list(value.strides)
        offset = "" if is_constant(value.offset, 0) else f" + {value.offset}"
        beside = "" if is_row_major(value.sizes, value.strides) else f"/{strides}"
        return f"{value.buffer}{offset}:{short_name(value.dtype)}{sizes}{beside}"
    if isinstance(value, ScalarInput):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(describe(v) for v in value)}]"
    return str(value) if isinstance(value, Size) else repr(value)


def size_list(sizes: tuple[Extent, ...]) -> str:
    """`[s0, 64]`."""
    return f"[{', '.join(map(str, sizes))}]"


def describe_buffer(buffer: Buffer) -> str:
    """`f32[4, 8]`, with strides where they are not row-major."""
    strides = "" if buffer.is_row_major else f" strides {size_list(buffer.strides)}"
    return f"{short_name(buffer.dtype)}{size_list(buffer.sizes)}{strides}"


def describe_input(value: Any) -> str:
    if isinstance(value, Buffer):
        return f"{value.name}: {describe_buffer(value)}"
    return "_" if value is None else f"{value.name}: {value.kind}"


def describe_loops(symbols: tuple[Symbol, ...]) -> str:
    return ", ".join(f"{symbol}: {symbol.extent}" for symbol in symbols)
