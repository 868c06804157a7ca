"""The Python function that runs a graph: allocations, kernel calls and library calls in order, nothing else.

def graph(x, w):
    softmax = empty((64, 1000), (1000, 1), float32)
    softmax_0(x, w, softmax)                          # model.py:3: return softmax(x + w)
    return (softmax,)
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch

from dynascope.codegen.kernels import Kernel
from dynascope.codegen.library_calls import KNOWN_LAYOUT, fastest
from dynascope.loops.index import Extent
from dynascope.loops.nodes import Buffer, ExternCall, Origin, ScalarInput, TensorView
from dynascope.loops.numbers import number_name
from dynascope.report.facts import LineLink
from dynascope.schedule.groups import Allocation, FusionGroup, ScatterGroup, Schedule
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.memory import makes, reads
from dynascope.sizes import Expression, Operation, Root, Size, is_constant, known, same, substitute
from dynascope.sizes.expression import text


def emit_wrapper(
    schedule: Schedule, kernels: tuple[Kernel | None, ...], empties_its_list: bool = False
) -> tuple[str, tuple[LineLink, ...], dict[str, Any]]:
    """The text, its links, and the constants that it refers to by name (operators, dtypes, devices).

    `empties_its_list`: the inputs come in a list, which is emptied, so that each is free once nobody here reads it any more.
    """
    return _Wrapper(schedule, kernels, empties_its_list).emit()


class _Wrapper:
    def __init__(self, schedule: Schedule, kernels: tuple[Kernel | None, ...], empties_its_list: bool) -> None:
        self.schedule, self.kernels, self.empties_its_list = schedule, kernels, empties_its_list
        self.lines: list[str] = []
        self.links: list[LineLink] = []
        self.values: dict[str, Any] = {}
        self.taken: set[str] = set()
        self.addressed = _addressed(schedule)
        self.returned = {view.buffer for view in views_in(schedule.outputs)}
        self.allocations: dict[int, list[Allocation]] = {}
        for allocation in schedule.allocations:
            self.allocations.setdefault(allocation.before, []).append(allocation)
        self.taken_over = {allocation.reuses: allocation.buffer for allocation in schedule.allocations}
        self.releases: dict[int, list[str]] = {}
        for number, name in (*schedule.releases, *(self._inputs_released() if empties_its_list else ())):
            if name not in self.taken_over:
                self.releases.setdefault(number, []).append(name)


    def emit(self) -> tuple[str, tuple[LineLink, ...], dict[str, Any]]:
        program = self.schedule.program
        parameters = [f"_unused{k}" if i is None else i.name for k, i in enumerate(program.inputs)]
        if self.empties_its_list and parameters:
            self.lines.append(f"def {program.name}(given):")
            self._line(f"{', '.join(parameters)}, = given")
            self._line("given.clear()")
        else:
            self.lines.append(f"def {program.name}({', '.join(parameters)}):")
        self._numbers()
        self._release(-1)
        for number, step in enumerate(self.schedule.steps):
            self._allocate(number)
            if isinstance(step, ExternCall):
                self._extern(step)
            else:
                self._kernel(step, self.kernels[number])
            self._release(number)
        outputs = ", ".join(self._operand(o) for o in self.schedule.outputs)
        self._line(f"return ({outputs}{',' if len(self.schedule.outputs) == 1 else ''})")
        return "\n".join(self.lines) + "\n", tuple(self.links), self.values

    def _allocate(self, number: int) -> None:
        for allocation in self.allocations.get(number, ()):
            buffer = self.schedule.buffers[allocation.buffer]
            if allocation.reuses:
                self._line(f"{buffer.name} = {allocation.reuses}; del {allocation.reuses}")
            else:
                self._line(f"{buffer.name} = {self._empty(buffer)}")

    def _release(self, number: int) -> None:
        if number in self.releases:
            self._line(f"del {', '.join(self.releases[number])}")

    def _inputs_released(self) -> Iterator[tuple[int, str]]:
        """(step, input): after that step nobody here needs it."""
        last = {i.name: -1 for i in self.schedule.program.inputs if isinstance(i, Buffer)}
        for number, step in enumerate(self.schedule.steps):
            last |= {name: number for name in (*reads(step), *makes(step)) if name in last}
        yield from ((number, name) for name, number in last.items() if name not in self.returned)

    def _numbers(self) -> None:
        """What only Python computes from the graph's numbers, for the kernels, once."""
        needed = dict(pair for kernel in self.kernels if kernel is not None for pair in kernel.group.numbers)
        for name, expression in needed.items():
            if isinstance(expression, Operation):
                self._line(f"{name} = {self._size(expression)}")

    def _size(self, value: Extent | Expression) -> str:
        """A number as Python text over the wrapper's variables."""
        if value.__class__ is Size:
            value = value.expression
        return text(substitute(value, _under_its_name), self.values)

    def _sizes(self, values: tuple[Extent, ...]) -> str:
        parts = list(map(self._size, values))
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def _empty(self, buffer: Buffer) -> str:
        layout = f"{self._sizes(buffer.sizes)}, {self._sizes(buffer.strides)}"
        if buffer.device.type == "cpu":
            return f"empty({layout}, {self._named(buffer.dtype)})"
        if buffer.device.type == "cuda" and not buffer.device.index:
            return f"empty_cuda({layout}, {self._named(buffer.dtype)})"
        device = self._value("device", buffer.device)
        return f"empty_on({layout}, dtype={self._named(buffer.dtype)}, device={device})"

    def _kernel(self, step: Any, kernel: Kernel) -> None:
        if isinstance(step, ScatterGroup) and not self._is_made_of(step.node.result.name, step.node.base):
            self._line(f"{step.node.result.name}.data.copy_({self._base_of(step)})")  # eager counts no write here
        group: FusionGroup = kernel.group
        self._line(f"{kernel.name}({', '.join((*kernel.buffers, *kernel.scalars, *map(repr, kernel.given)))})", group.origins[-1])

    def _base_of(self, step: ScatterGroup) -> str:
        """The memory that the base is a view of, seen as the result is laid out: the lowering has looked that it is so."""
        result = step.node.result
        return self._view(TensorView(step.node.base, result.dtype, result.sizes, result.strides, 0))

    def _is_made_of(self, result: str, base: str) -> bool:
        return result == base or self.taken_over.get(base) == result

    def _extern(self, step: ExternCall) -> None:
        name = self._value(_short(step), fastest(step.operator))
        written = _written_arguments(step)
        operands = [self._operand(a) + (".data" if at in written else "") for at, a in enumerate(step.arguments)]
        operands += [f"{key}={self._operand(value)}" for key, value in step.keywords.items()]
        targets = [r.name if r is not None else "_" for r in step.results]
        is_tuple = _returns_many(step)
        left = f"{', '.join(targets)}{',' if len(targets) == 1 else ''}" if is_tuple else targets[0]
        is_read = any(buffer is not None for buffer in step.results)
        left = left if is_read else step.origin.node  # by which its place in the program is found where it raises
        self._line(f"{left} = {name}({', '.join(operands)})", step.origin)
        if step.results and not is_read:
            self._line(f"del {left}")
        for buffer in step.results:
            if isinstance(buffer, Buffer) and step.origin.operator not in KNOWN_LAYOUT:
                self._check_layout(buffer)
            if isinstance(buffer, Buffer) and buffer.name in self.returned and _makes_from_nothing(step):
                self._line(f"{buffer.name} = {buffer.name}.data")

    def _check_layout(self, buffer: Buffer) -> None:
        """A meta function may be wrong about its library. Whoever goes by address would read other elements, silently.

        What is returned may be saved for a backward graph, whose kernels go by address. Other library calls take any layout.
        """
        name = buffer.name
        if name not in self.addressed and name not in self.returned:
            return
        dtype, sizes, strides = self._named(buffer.dtype), self._sizes(buffer.sizes), self._sizes(buffer.strides)
        is_single = known("<=", buffer.elements, 1)
        differences = [] if is_single else [f"{name}.stride() != {strides}"]
        differences.append(f"{name}.dtype is not {dtype}")
        if name in self.addressed:
            differences.append(f"{name}.shape != {sizes}")
        fix = "restrided" if name in self.addressed else "laid_out"
        fixed = f"{fix}({name}, {sizes}, {strides}, {dtype})"
        self._line(f"if {' or '.join(differences)}: {name} = {fixed}")

    # -- operands ----------------------------------------------------------------------------------------------------

    def _operand(self, value: Any) -> str:
        if isinstance(value, TensorView):
            return self._view(value)
        if isinstance(value, ScalarInput):
            return value.name
        if isinstance(value, Size):
            return self._size(value)
        if isinstance(value, (list, tuple)):
            inner = ", ".join(self._operand(v) for v in value)
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            return self._value("number", value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return repr(value)
        return self._named(value)

    def _view(self, view: TensorView) -> str:
        buffer = self.schedule.buffers[view.buffer]
        if _is_whole(view, buffer):
            return view.buffer
        layout = f"{self._sizes(view.sizes)}, {self._sizes(view.strides)}, {self._size(view.offset)}"
        return f"view({view.buffer}, {layout})"

    def _named(self, value: Any) -> str:
        """A constant that has no literal: dtypes under their own name."""
        if isinstance(value, torch.dtype):
            name = str(value).removeprefix("torch.") + "_type"
            self.values[name] = value
            return name
        return self._value("constant", value)

    def _value(self, stem: str, value: Any) -> str:
        for name, other in self.values.items():
            if other is value:
                return name
        name, number = stem, 1
        reserved = self.schedule.buffers.keys() | self.taken | self.values.keys()
        while name in reserved:
            name, number = f"{stem}_{number}", number + 1
        self.values[name] = value
        return name

    def _line(self, text: str, origin: Origin | None = None) -> None:
        span = origin.span if origin is not None else None
        comment = f"  # {span.quotation()}" if span is not None else ""
        self.lines.append(f"    {text}{comment}")
        if span is not None:
            self.links.append(LineLink(len(self.lines), span))


def _addressed(schedule: Schedule) -> frozenset[str]:
    """Buffers that kernels read, or that are viewed by sizes and strides: their layout must be the one planned for."""
    found: set[str] = set()
    for step in schedule.steps:
        if isinstance(step, ExternCall):
            found.update(_viewed((step.arguments, step.keywords), schedule))
        else:
            found.update(reads(step))
    return frozenset(found | _viewed(schedule.outputs, schedule))


def _viewed(operands: Any, schedule: Schedule) -> set[str]:
    return {view.buffer for view in views_in(operands) if not _is_whole(view, schedule.buffers[view.buffer])}


def _is_whole(view: TensorView, buffer: Buffer) -> bool:
    """For all sizes."""
    return is_constant(view.offset, 0) and same(view.sizes, buffer.sizes) and same(view.strides, buffer.strides)


def _under_its_name(root: Root) -> Root:
    """The root as the wrapper calls it."""
    name = number_name(root)
    return root if name == root.name else root.named(name)


def _written_arguments(step: ExternCall) -> frozenset[int]:
    """What a library call writes itself: who runs the graph counts the writes that the program made, once."""
    schema = getattr(step.operator, "_schema", None)
    arguments = schema.arguments if schema is not None else ()
    return frozenset(at for at, each in enumerate(arguments) if each.is_write and isinstance(each.type, torch.TensorType))


def _makes_from_nothing(step: ExternCall) -> bool:
    """Torch's factories fill what they make, which counts as a write where they are called as operators are here."""
    schema = getattr(step.operator, "_schema", None)
    if schema is None:
        return hasattr(step.operator, "written_by")
    return schema.name.endswith("_like") or not any("Tensor" in str(each.type) for each in schema.arguments)


def _short(step: ExternCall) -> str:
    if isinstance(step.operator, FunctionType):
        return f"call_{step.operator.__name__}"
    parts = str(step.operator).split(".")
    return f"call_{parts[1] if len(parts) > 1 else getattr(step.operator, '__name__', 'operator')}"


def _returns_many(step: ExternCall) -> bool:
    schema = getattr(step.operator, "_schema", None)
    if schema is None:
        return False
    return len(schema.returns) > 1 or any("[]" in str(r.type) or "List" in str(r.type) for r in schema.returns)
