"""Why a graph, or a part of it, could not be differentiated. Each is carried by `DifferentiationRefused`."""

from __future__ import annotations

from dynascope.dataclass import dataclass
from dynascope.report.reason import Reason


class DifferentiationRefused(Exception):
    """The program is not supported; `reason` says why, `node` names the Torch IR node concerned (or is empty)."""

    def __init__(self, reason: Reason, node: str = "") -> None:
        super().__init__(reason.message())
        self.reason = reason
        self.node = node


@dataclass(frozen=True)
class VaryingNumberNeeded(Reason):
    """A Python number that varies from call to call is needed as a constant. `inputs` are the placeholders it is made from."""

    code = "varying-number"
    operation: str
    inputs: frozenset[str]

    def message(self) -> str:
        return f"`{self.operation}` needs the value of a Python number that varies from call to call."

    def remedy(self) -> str:
        return f"Keep the number that `{self.operation}` takes the same in every call, or pass it as a tensor."


@dataclass(frozen=True)
class LateNumberNeeded(Reason):
    """A part of a graph needs a number that only the run knows: where it writes, or how its tensors lie in memory."""

    code = "varying-number"

    def message(self) -> str:
        return "What begins here runs operator by operator: a number that is known only when the program runs says where its elements lie."

    def remedy(self) -> str:
        return "The result is right. For kernels, keep the number in a tensor: `index_put_` and `index_add_` take places as tensors."


@dataclass(frozen=True)
class OperatorFailed(Reason):
    """Shape inference of one operator failed: eager fails too, or torch cannot infer its result without running it."""

    code = "operator-failed"
    operation: str
    error: str

    def message(self) -> str:
        return f"`{self.operation}` could not be traced: {self.error}"

    def remedy(self) -> str:
        return f"If `{self.operation}` runs without the compiler, move it out of the compiled function."


@dataclass(frozen=True)
class DataDependentResult(Reason):
    """The size or the branch depends on the elements of a tensor."""

    code = "data-dependent-output"
    operation: str

    def message(self) -> str:
        return f"What `{self.operation}` returns depends on the elements of a tensor, not only on its size."

    def remedy(self) -> str:
        return f"Replace `{self.operation}` by an operation of fixed size, such as `torch.where`, or leave it outside."


@dataclass(frozen=True)
class UnsupportedMutation(Reason):
    code = "unsupported-mutation"
    operation: str
    detail: str

    def message(self) -> str:
        return f"`{self.operation}` changes a tensor in a way that cannot be replayed: {self.detail}."

    def remedy(self) -> str:
        return f"Use the form of `{self.operation}` that returns a new tensor."


@dataclass(frozen=True)
class OverlappingInputsMutated(Reason):
    code = "overlapping-inputs"
    mutated: str
    other: str

    def message(self) -> str:
        return f"`{self.mutated}` is changed in place and shares memory with `{self.other}`, another input."

    def remedy(self) -> str:
        return f"Pass a copy of `{self.other}`, or change `{self.mutated}` outside the compiled function."


@dataclass(frozen=True)
class InputMetadataChanged(Reason):
    code = "input-metadata-changed"
    name: str

    def message(self) -> str:
        return f"The size, strides or requires_grad of input `{self.name}` change inside the function."

    def remedy(self) -> str:
        return f"Make a new tensor instead of reshaping `{self.name}` in place (`t_`, `resize_`, `requires_grad_`)."


@dataclass(frozen=True)
class AutocastActive(Reason):
    code = "autocast"
    operation: str

    def message(self) -> str:
        return f"`{self.operation}` is made of operators that autocast converts one by one, out of the differentiator's sight."

    def remedy(self) -> str:
        return f"Compute `{self.operation}` outside the autocast region, or write it with `torch.einsum` or `torch.matmul`."


@dataclass(frozen=True)
class UnsupportedTensor(Reason):
    code = "unsupported-tensor"
    name: str
    kind: str

    def message(self) -> str:
        return f"`{self.name}` is {self.kind}; graphs are made of dense strided tensors."

    def remedy(self) -> str:
        return f"Convert `{self.name}` to a dense tensor before the compiled function."


@dataclass(frozen=True)
class SparseOperand(Reason):
    """Where a table is looked up more than once, its gradients are added up; where it is computed, they go on."""

    code = "unsupported-tensor"
    operation: str

    def message(self) -> str:
        return f"`{self.operation}` reads a sparse gradient; graphs are made of dense strided tensors."

    def remedy(self) -> str:
        return "The result is right. For kernels, look the table up once (`table(torch.cat([a, b]))`), or leave `sparse=True` out."


@dataclass(frozen=True)
class UnsupportedDevice(Reason):
    code = "unsupported-tensor"
    name: str
    device: str

    def message(self) -> str:
        return f"`{self.name}` is on {self.device}; kernels are made for the CPU and for CUDA, and the graph runs operator by operator."

    def remedy(self) -> str:
        return f"Move `{self.name}` to one of them before the compiled function, if kernels are wanted."


@dataclass(frozen=True)
class OutputNotReproducible(Reason):
    code = "output-alias"
    name: str
    detail: str
    other_remedy: str = ""

    def message(self) -> str:
        return f"Output {self.name} cannot be made again as eager makes it: {self.detail}."

    def remedy(self) -> str:
        return self.other_remedy or f"Return a copy of {self.name} (`.clone()`)."


@dataclass(frozen=True)
class LeafMadeInside(Reason):
    code = "leaf-inside"
    name: str

    def message(self) -> str:
        return f"Output {self.name} was made inside with `requires_grad=True`."

    def remedy(self) -> str:
        return "Make tensors that require grad outside the compiled function, and pass them in."
