"""A fusion group to a Triton kernel: the generator's public functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from dynascope.codegen.kernels import Kernel
from dynascope.codegen.reasons import EmitError
from dynascope.codegen.target import DeviceModel
from dynascope.codegen.triton.draft import GroupFacts
from dynascope.codegen.triton.kernel import TritonKernel
from dynascope.codegen.triton.operations import UnknownOperation
from dynascope.codegen.triton.pointwise import emit_pointwise
from dynascope.codegen.triton.products import emit_product
from dynascope.codegen.triton.rows import emit_rows
from dynascope.dataclass import dataclass
from dynascope.loops.nodes import Buffer, Reduce, Scan
from dynascope.report.reason import Reason
from dynascope.schedule.groups import FusionGroup


@dataclass(frozen=True)
class NoTritonRule(Reason):
    """An operation that Triton kernels cannot do."""

    code: ClassVar[str] = "no-triton-rule"
    kernel: str
    operation: str

    def message(self) -> str:
        return f"`{self.kernel}` needs {self.operation}, which has no Triton translation."

    def remedy(self) -> str:
        return "Its operations run one by one in eager mode; use another dtype there, or leave it as it is."


def triton_kernel(
    group: FusionGroup, name: str, buffers: Mapping[str, Buffer], device: DeviceModel, is_strict: bool = False
) -> Kernel:
    """The kernel of a group, under `name`, as every language's are described. Raises EmitError."""
    made = emit_triton(replace(group, name=name), buffers, device, is_strict)
    pointers = tuple(p.source for p in made.parameters if p.is_pointer and p.source is not None)
    scalars = tuple(p.source for p in made.parameters if not p.is_pointer)
    return Kernel(
        name, "triton", made.text, made.links, group, pointers, scalars, made.grid[0], made.scalar_operations,
        made.scalar_operations, made.bytes_read, made.bytes_written, triton=made,
    )  # fmt: skip


def emit_triton(
    group: FusionGroup, buffers: Mapping[str, Buffer], device: DeviceModel | None = None, is_strict: bool = False
) -> TritonKernel:
    """The kernel of a group. Raises EmitError where an operation has no rule."""
    facts = GroupFacts(group, buffers, is_strict)
    pattern = emit_rows if group.columns or any(isinstance(o, (Reduce, Scan)) for o in group.body) else emit_pointwise
    try:
        return (pattern if group.product is None else emit_product)(facts, device or DeviceModel())
    except UnknownOperation as error:
        raise EmitError(NoTritonRule(group.name, str(error))) from error
