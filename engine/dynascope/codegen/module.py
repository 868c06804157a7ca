"""A schedule's kernels and wrapper.

emit(schedule, target) -> KernelModule
runnable_of(module)    -> Runnable, which is all that running it takes
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import replace

from dynascope.codegen.cpp.emitter import emit_kernel, emit_scatter
from dynascope.codegen.cpp.families import merged
from dynascope.codegen.cpp.rows import scalar_kinds
from dynascope.codegen.cpp.unit import units
from dynascope.codegen.identity import Identity, identity
from dynascope.codegen.kernels import Kernel, KernelModule, distinct
from dynascope.codegen.launches import launches_of
from dynascope.codegen.library_calls import fastest
from dynascope.codegen.runnable import CppLaunch, Runnable, TritonLaunch
from dynascope.codegen.target import Target
from dynascope.codegen.wrapper import emit_wrapper
from dynascope.schedule.groups import ExternCall, FusionGroup, ScatterGroup, Schedule, Step

LONGEST_NAME = 48
PORTABLE = Target()


def emit(schedule: Schedule, target: Target = PORTABLE, empties_its_list: bool = False) -> KernelModule:
    """One kernel for all groups that compute the same, one text for all of a language, and the function that runs them."""
    taken: set[str] = set(schedule.buffers) | {schedule.program.name}
    made: dict[Hashable, tuple[Kernel, Identity]] = {}
    kernels = tuple(_kernel(step, schedule, target, taken, made) for step in schedule.steps)
    served = merged(kernel for kernel, _ in made.values())
    kernels = tuple(kernel and _served(kernel, served) for kernel in kernels)
    own = [kernel for kernel in distinct(kernels) if kernel.language == "cpp"]
    wrapper, wrapper_links, values = emit_wrapper(schedule, kernels, empties_its_list)
    return KernelModule(schedule, kernels, units(own, schedule.program.name), wrapper, wrapper_links, values, empties_its_list, target)


def _kernel(
    step: Step, schedule: Schedule, target: Target, taken: set[str], made: dict[Hashable, tuple[Kernel, Identity]]
) -> Kernel | None:
    if isinstance(step, ExternCall):
        return None
    group = step.group if isinstance(step, ScatterGroup) else step
    own = identity(group, schedule.buffers)
    key = type(step), own.key
    if key in made:
        return _called_again(*made[key], group, own)
    kernel = _new_kernel(step, group, schedule, target, taken)
    made[key] = kernel, own
    return kernel


def _called_again(kernel: Kernel, first: Identity, group: FusionGroup, own: Identity) -> Kernel:
    """The same kernel, called with what this group reads and writes."""
    names = dict(zip((*first.buffers, *first.scalars), (*own.buffers, *own.scalars), strict=True))
    return replace(
        kernel,
        group=group,
        buffers=tuple(names[name] for name in kernel.buffers),
        scalars=tuple(names[name] for name in kernel.scalars),
    )


def _served(kernel: Kernel, served: Mapping[str, tuple[Kernel, tuple[int | float, ...]]]) -> Kernel:
    """The same step by the text that serves it, where that is another's."""
    if kernel.name not in served:
        return kernel
    text, given = served[kernel.name]
    return replace(kernel, name=text.name, text=text.text, links=text.links, share=text.share, given=given)


def _new_kernel(step: Step, group: FusionGroup, schedule: Schedule, target: Target, taken: set[str]) -> Kernel:
    name = _new_name(group.name, taken)
    if group.device.type == "cuda":
        # Read only where there is a GPU: it is a quarter of the back end.
        from dynascope.codegen.triton.emit import triton_kernel

        return triton_kernel(group, name, schedule.buffers, target.device(group.device), schedule.program.is_strict)
    emit_one = emit_scatter if isinstance(step, ScatterGroup) else emit_kernel
    return emit_one(group, name, schedule.buffers, target.vector_bytes)


def _new_name(wanted: str, taken: set[str]) -> str:
    base = re.sub(r"\W", "_", wanted)[:LONGEST_NAME] + "_kernel"
    name, number = base, 1
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name


def runnable_of(module: KernelModule) -> Runnable:
    program = module.schedule.program
    operators = {id(fastest(s.operator)): s.operator for s in module.schedule.steps if isinstance(s, ExternCall)}
    return Runnable(
        program.name,
        module.wrapper,
        module.values,
        {name: operators[id(value)] for name, value in module.values.items() if id(value) in operators},
        program.constants,
        module.units,
        module.target.vector_bytes,
        module.empties_its_list and bool(program.inputs),
        tuple(_cpp_launch(kernel) for kernel in module.distinct if kernel.language == "cpp"),
        tuple(
            TritonLaunch(kernel.triton, (*kernel.buffers, *kernel.scalars), kernel.group.device)
            for kernel in module.distinct
            if kernel.triton is not None
        ),
        launches_of(module.schedule),
    )


def _cpp_launch(kernel: Kernel) -> CppLaunch:
    given = scalar_kinds(kernel.group)
    kinds = "t" * len(kernel.buffers) + "".join("f" if given[name] is float else "i" for name in kernel.scalars)
    kinds += "".join("f" if isinstance(number, float) else "i" for number in kernel.given)
    items, work = (0, 0.0) if kernel.share else (int(kernel.items), float(kernel.work))
    return CppLaunch(kernel.name, kinds, items, work, kernel.group.checks_indices, kernel.share)
