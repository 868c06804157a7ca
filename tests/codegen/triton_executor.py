"""Runs a schedule step by step with Triton kernels, plainly: the reference for what a wrapper must do.

run = executor(schedule, launcher_for)
outputs = run(*inputs)
"""

from __future__ import annotations

from dataclasses import replace

import torch
from dynascope.codegen.triton.emit import emit_triton
from dynascope.loops.nodes import Buffer, ExternCall, ScalarInput, TensorView
from dynascope.schedule.groups import ScatterGroup
from dynascope.sizes import Size, evaluate


class Executor:
    """`launchers_for(kernels, slots of each)` makes one callable a kernel."""

    def __init__(self, schedule, launchers_for, device_model=None):
        self.schedule = schedule
        self.allocate = poisoned
        self.kernels, self.slots, self.numbers = [], [], {}
        for number, step in enumerate(schedule.steps):
            if not isinstance(step, ExternCall):
                self._add(number, step.group if isinstance(step, ScatterGroup) else step, device_model)
        self.launchers = launchers_for(self.kernels, self.slots)

    def _add(self, number, group, device_model):
        named = replace(group, name=f"{group.name}_{number}")
        kernel = emit_triton(named, self.schedule.buffers, device_model)
        self.numbers[number] = len(self.kernels)
        self.kernels.append(kernel)
        self.slots.append(tuple(p.source for p in kernel.parameters if p.source is not None))

    def __call__(self, *inputs):
        program = self.schedule.program
        values = dict(program.constants)
        for slot, value in zip(program.inputs, inputs, strict=True):
            if slot is not None:
                values[slot.name] = value
        for kernel in self.kernels:
            for source, leaf in kernel.numbers:
                values.setdefault(source, evaluate(leaf, values))
        for number, step in enumerate(self.schedule.steps):
            self._run(number, step, values)
        return tuple(self._value(output, values) for output in self.schedule.outputs)

    def _run(self, number, step, values):
        if isinstance(step, ExternCall):
            results = step.operator(*self._value(step.arguments, values), **self._value(step.keywords, values))
            results = results if isinstance(results, (list, tuple)) else (results,)
            for buffer, result in zip(step.results, results, strict=False):
                if isinstance(buffer, ScalarInput):
                    values[buffer.name] = result
                elif buffer is not None:
                    values[buffer.name] = _laid_out(result, _at(buffer, values))
            return
        group = step.group if isinstance(step, ScatterGroup) else step
        for name in group.writes:
            if name not in values:
                values[name] = self.allocate(_at(self.schedule.buffers[name], values))
        if isinstance(step, ScatterGroup):
            values[step.node.result.name].copy_(values[step.node.base])
        kernel = self.numbers[number]
        self.launchers[kernel](*(values[name] for name in self.slots[kernel]))

    def _value(self, value, values):
        if isinstance(value, TensorView):
            return _view(values[value.buffer], _at(value, values))
        if isinstance(value, Size):
            return evaluate(value.expression, values)
        if isinstance(value, ScalarInput):
            return values[value.name]
        if isinstance(value, (list, tuple)):
            return type(value)(self._value(v, values) for v in value)
        if isinstance(value, dict):
            return {k: self._value(v, values) for k, v in value.items()}
        return value


def _at(place, values):
    """A buffer or view with its sizes as they are in this call."""
    numbers = {
        field: tuple(evaluate(n.expression, values) if isinstance(n, Size) else n for n in getattr(place, field))
        for field in ("sizes", "strides")
    }
    offset = getattr(place, "offset", 0)
    if isinstance(offset, Size):
        numbers["offset"] = evaluate(offset.expression, values)
    return replace(place, **numbers)


def poisoned(buffer: Buffer, device: torch.device | None = None):
    """Memory in which what a kernel leaves out is seen."""
    result = torch.empty_strided(buffer.sizes, buffer.strides, dtype=buffer.dtype, device=device or buffer.device)
    return result.fill_(float("nan") if buffer.dtype.is_floating_point else 77 if buffer.dtype != torch.bool else True)


def _laid_out(result, buffer):
    if tuple(result.stride()) == tuple(buffer.strides):
        return result
    fresh = torch.empty_strided(buffer.sizes, buffer.strides, dtype=buffer.dtype, device=result.device)
    return fresh.copy_(result)


def _view(tensor, view):
    """What a library keeps beside a tensor hangs on the very object."""
    whole = (tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype) == (tuple(view.sizes), tuple(view.strides), view.dtype)
    if whole and not view.offset:
        return tensor
    offset = tensor.storage_offset() + view.offset
    seen = tensor if view.dtype == tensor.dtype else tensor.view(view.dtype)
    return seen.as_strided(view.sizes, view.strides, offset)
