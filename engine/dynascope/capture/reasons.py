"""Why a graph ended, or why a function was not captured: one class each, in the user's own words.

A break costs one border between two graphs; the rest of the function is captured on. A refusal leaves the function to
Python. Both are the same classes: where the state cannot be rebuilt, a break's reason becomes the refusal's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dynascope.report.reason import Reason


@dataclass(frozen=True)
class DataDependentBranch(Reason):
    code: ClassVar[str] = "data-dependent-branch"
    condition: str

    def message(self) -> str:
        return f"`{self.condition}` needs the value of a tensor, known only when the program runs."

    def remedy(self) -> str:
        return (
            f"Compute both sides and choose with `torch.where({self.condition}, ..., ...)`, "
            "or decide from something known beforehand, such as a shape or an argument."
        )


@dataclass(frozen=True)
class DataDependentValue(Reason):
    code: ClassVar[str] = "data-dependent-value"
    expression: str
    conversion: str

    def message(self) -> str:
        return (
            f"`{self.expression}` takes a Python value out of a tensor (`{self.conversion}`), known only at run time."
        )

    def remedy(self) -> str:
        if self.conversion == "numpy":
            return f"Use the torch operation of the same name in place of NumPy, so that `{self.expression}` is not needed."
        return f"Keep `{self.expression}` a zero-dimensional tensor: arithmetic and `torch.where` work on it without `{self.conversion}`."


@dataclass(frozen=True)
class DataDependentShape(Reason):
    code: ClassVar[str] = "data-dependent-shape"
    operation: str
    expression: str

    def message(self) -> str:
        return f"The size of `{self.expression}` depends on the values in a tensor, so no graph can be made after it."

    def remedy(self) -> str:
        if self.operation in ("getitem", "__getitem__", "masked_select"):
            return "Where the selected elements are reduced afterwards, use `torch.where(mask, values, neutral)`, which keeps the shape."
        return f"Use a form of `{self.operation}` with a fixed size (`topk`, `torch.where` with three arguments, a padded buffer)."


@dataclass(frozen=True)
class MissingMetaKernel(Reason):
    code: ClassVar[str] = "missing-meta-kernel"
    operation: str
    detail: str

    def message(self) -> str:
        return f"The result sizes of `{self.operation}` cannot be computed without running it: {self.detail}"

    def remedy(self) -> str:
        return f"Register a meta kernel for `{self.operation}` (`torch.library.register_fake`), or call it outside the compiled function."


@dataclass(frozen=True)
class TorchCallFails(Reason):
    code: ClassVar[str] = "torch-call-fails"
    severity: ClassVar[str] = "information"
    expression: str
    detail: str

    def message(self) -> str:
        return f"`{self.expression}` raises with these arguments: {self.detail}"

    def remedy(self) -> str:
        return f"Correct the arguments of `{self.expression}`; plain PyTorch raises the same error."


@dataclass(frozen=True)
class OverlappingWrite(Reason):
    code: ClassVar[str] = "overlapping-write"
    expression: str

    def message(self) -> str:
        return f"`{self.expression}` writes to memory in which several of its elements lie, or that it reads as other elements."

    def remedy(self) -> str:
        return "Write to a `.clone()` of the expanded tensor, or clone the operand that shares the memory."


@dataclass(frozen=True)
class ProgramRaises(Reason):
    code: ClassVar[str] = "program-raises"
    severity: ClassVar[str] = "information"
    exception: str
    expression: str

    def message(self) -> str:
        return f"`{self.expression}` raises {self.exception}, and nothing in the captured part catches it."

    def remedy(self) -> str:
        return f"Nothing, where the {self.exception} is meant; the part before `{self.expression}` runs compiled."


@dataclass(frozen=True)
class ForeignCall(Reason):
    code: ClassVar[str] = "foreign-call"
    function: str
    detail: str = "it is not a PyTorch operation and has no Python code to read"

    def message(self) -> str:
        return f"`{self.function}` cannot be part of a graph: {self.detail}."

    def remedy(self) -> str:
        return (
            f"Move the call of `{self.function}` before or after the compiled function, "
            "use the torch operation that does the same, or make it one with `torch.library.custom_op`."
        )


@dataclass(frozen=True)
class PrintCall(Reason):
    code: ClassVar[str] = "print-call"
    function: str
    expression: str

    def message(self) -> str:
        return f"`{self.expression}` writes while the function runs, which a graph cannot do."

    def remedy(self) -> str:
        return f"Remove `{self.expression}`, or move it to the caller, after the compiled function returned."


@dataclass(frozen=True)
class DisabledFunction(Reason):
    code: ClassVar[str] = "disabled-function"
    function: str
    by_torch: bool = False

    def message(self) -> str:
        if self.by_torch:
            return f"PyTorch itself keeps `{self.function}` out of compiled code."
        return f"`{self.function}` is marked with `dynascope.disable`."

    def remedy(self) -> str:
        if self.by_torch:
            return f"Call `{self.function}` outside the compiled function."
        return f"Remove the mark from `{self.function}`, or call it outside the compiled function."


@dataclass(frozen=True)
class ForeignValue(Reason):
    code: ClassVar[str] = "foreign-value"
    type_name: str
    operation: str

    def message(self) -> str:
        return f"`{self.operation}` works on a {self.type_name}, whose operations cannot be part of a graph."

    def remedy(self) -> str:
        return f"Convert the {self.type_name} to a tensor before the compiled function, or compute with it there."


@dataclass(frozen=True)
class KeysByIdentity(Reason):
    """A dict keyed by tensors or instances. The page is that of `foreign-value`."""

    code: ClassVar[str] = "foreign-value"
    type_name: str
    operation: str

    def message(self) -> str:
        return f"`{self.operation}` reads a dict with a key that is a {self.type_name}, found by which object it is."

    def remedy(self) -> str:
        return f"Use names or numbers as the keys, or keep what belongs to a {self.type_name} in an attribute of it."


@dataclass(frozen=True)
class UnsupportedInstruction(Reason):
    code: ClassVar[str] = "unsupported-instruction"
    operation: str
    expression: str

    def message(self) -> str:
        return f"`{self.expression}` compiles to {self.operation}, which capture does not interpret."

    def remedy(self) -> str:
        return f"Move `{self.expression}` into a function of its own, called outside the compiled part."


@dataclass(frozen=True)
class GeneratorFunction(Reason):
    code: ClassVar[str] = "generator-function"
    function: str
    kind: str = "generator"

    def message(self) -> str:
        return f"`{self.function}` is a {self.kind}: it is left and entered again, and cannot be compiled as a whole."

    def remedy(self) -> str:
        return f"Compile the function that `{self.function}` calls between its yields, or the one that consumes it."


@dataclass(frozen=True)
class TensorAttribute(Reason):
    code: ClassVar[str] = "tensor-attribute"
    attribute: str

    def message(self) -> str:
        return f"`.{self.attribute}` of a tensor is not a value that a graph can hold."

    def remedy(self) -> str:
        return f"Read or write `.{self.attribute}` outside the compiled function and pass what you need as an argument."


@dataclass(frozen=True)
class BackwardCall(Reason):
    code: ClassVar[str] = "backward-call"
    expression: str

    def message(self) -> str:
        return f"`{self.expression}` differentiates what the graph computes, so the graph ends before it."

    def remedy(self) -> str:
        return (
            "Compile the computation of the loss, and differentiate it where the compiled function is called: "
            "its backward pass is compiled too."
        )


@dataclass(frozen=True)
class RecurrentLayer(Reason):
    code: ClassVar[str] = "recurrent-layer"
    expression: str

    def message(self) -> str:
        return f"`{self.expression}` is a recurrent layer: PyTorch's library runs all its steps, a graph would spell them out."

    def remedy(self) -> str:
        return "Leave it: the library's kernel is the fast way. To have one graph, move the layer out of the compiled function."


@dataclass(frozen=True)
class TensorSubclass(Reason):
    code: ClassVar[str] = "tensor-subclass"
    type_name: str
    expression: str

    def message(self) -> str:
        return f"`{self.expression}` is a {self.type_name}, a subclass of Tensor with behaviour of its own."

    def remedy(self) -> str:
        return f"Pass a plain tensor, for example `{self.expression}.as_subclass(torch.Tensor)`."


@dataclass(frozen=True)
class UnsupportedAttribute(Reason):
    code: ClassVar[str] = "unsupported-attribute"
    type_name: str
    attribute: str

    def message(self) -> str:
        return f"Attribute `{self.attribute}` of a {self.type_name} is computed by code that cannot be read."

    def remedy(self) -> str:
        return f"Read `{self.attribute}` before the compiled function and pass the result as an argument."


@dataclass(frozen=True)
class UnrebuildableValue(Reason):
    code: ClassVar[str] = "unrebuildable-value"
    description: str

    def message(self) -> str:
        return (
            f"A break is needed here, and {self.description} is alive across it but cannot be rebuilt by compiled code."
        )

    def remedy(self) -> str:
        return f"Finish using {self.description} before the line that breaks, or turn it into a list first."


@dataclass(frozen=True)
class AliasedMutation(Reason):
    code: ClassVar[str] = "aliased-mutation"
    first: str
    second: str

    def message(self) -> str:
        return f"`{self.first}` and `{self.second}` share memory, and one of them is written in place."

    def remedy(self) -> str:
        return f"Clone one of `{self.first}` and `{self.second}` before the call, or write the result to a new tensor."


@dataclass(frozen=True)
class GlobalStateUnsupported(Reason):
    code: ClassVar[str] = "global-state"
    state: str

    def message(self) -> str:
        return f"{self.state} is active, and changes what every operation does."

    def remedy(self) -> str:
        return f"Leave {self.state} outside the compiled function, or do without it there."


@dataclass(frozen=True)
class LoopGoesOn(Reason):
    code: ClassVar[str] = "loop-goes-on"
    severity: ClassVar[str] = "information"
    iterable: str

    def message(self) -> str:
        return f"The loop over `{self.iterable}` was left by an earlier break; Python takes its next item."

    def remedy(self) -> str:
        return f"Remove the break inside the loop over `{self.iterable}`; then all its turns are one graph."


@dataclass(frozen=True)
class LimitReached(Reason):
    code: ClassVar[str] = "capture-limit"
    limit: str
    place: str

    def message(self) -> str:
        return f"Capture stopped in `{self.place}`: {self.limit}."

    def remedy(self) -> str:
        return f"Shorten the loop or recursion around `{self.place}`, or mark the function with `dynascope.disable`."


@dataclass(frozen=True)
class InternalFailure(Reason):
    """A defect of capture itself. The function runs uncompiled, and the report says what happened."""

    code: ClassVar[str] = "internal-failure"
    detail: str

    def message(self) -> str:
        return f"Capture failed with an error of its own: {self.detail}"

    def remedy(self) -> str:
        return f"Please report it with the function's source; the function runs uncompiled meanwhile ({self.detail})."
