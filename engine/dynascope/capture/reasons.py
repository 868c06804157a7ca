"""Why a graph ended, or why a function was not captured: one class each, in the user's own words.

A break costs one border between two graphs; the rest of the function is captured on. A refusal leaves the function to
Python. Both are the same classes: where the state cannot be rebuilt, a break's reason becomes the refusal's.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal

import torch

from dynascope.capture import value_advice
from dynascope.capture.branch_advice import advice, question
from dynascope.dataclass import dataclass
from dynascope.report.reason import Reason
from dynascope.report.span import Span


@dataclass(frozen=True)
class DataDependentBranch(Reason):
    """`place` is where the truth was asked for: the words are made from what stands there."""

    code: ClassVar[str] = "data-dependent-branch"
    condition: str
    place: Span | None = None

    def message(self) -> str:
        asked = question(self.place, self.condition) if self.place is not None else self.condition
        return f"`{asked}` needs the value of a tensor, known only when the program runs."

    def remedy(self) -> str:
        if self.place is None:
            return f"Choose with `torch.where({self.condition}, a, b)`, or decide from a shape or an argument."
        return advice(self.place, self.condition)


@dataclass(frozen=True)
class DataDependentValue(Reason):
    code: ClassVar[str] = "data-dependent-value"
    expression: str
    conversion: str

    def message(self) -> str:
        if self.conversion == "item" and ".item" not in self.expression:
            return f"`{self.expression}` depends on the values in a tensor, known only at run time."
        return (
            f"`{self.expression}` takes a Python value out of a tensor (`{self.conversion}`), known only at run time."
        )

    def remedy(self) -> str:
        make = VALUE_REMEDIES.get(self.conversion)
        if make is not None:
            return make(self.expression)
        return f"Keep `{self.expression}` a zero-dimensional tensor: arithmetic and `torch.where` work on it without `{self.conversion}`."


DEFINITION = re.compile(r"(?:async )?def (\w+)\(")
VALUE_REMEDIES = {
    "numpy": lambda text: (
        f"Compute with torch in place of NumPy, so that `{text}` is not needed; or call NumPy outside the compiled function."
    ),
    "item": lambda text: (
        value_advice.advice(text)
        # Until CPython 3.12 a whole text is the place of what stands in it.
        if ".item" not in text or text.startswith(('f"', "f'"))
        else f"Leave out the conversion in `{text}`: a tensor without dimensions takes part in arithmetic, comparisons and `torch.where`. "
        "For logging, return it and convert it in the caller."
    ),
    "tolist": lambda text: f"Iterate over the tensor itself, or call `{text}` after the compiled function returned.",
    "range": lambda text: (
        f"Give `{text}` a number that does not come out of a tensor: a size (`x.shape[0]`) or an argument."
    ),
    "__index__": lambda text: f"Index with the tensor itself, or use `torch.index_select` in `{text}`.",
    "float": lambda text: (
        f"Keep the tensor: in `{text}` it takes part in arithmetic as it is (`x.float()` changes its dtype)."
    ),
    "int": lambda text: (
        f"Keep the tensor: in `{text}` it takes part in arithmetic as it is (`x.long()` changes its dtype)."
    ),
    "bool": lambda text: f"Keep the tensor `{text}` asks about, and choose with `torch.where`.",
}
"""By what was called, the remedy for the expression."""


@dataclass(frozen=True)
class DataDependentShape(Reason):
    code: ClassVar[str] = "data-dependent-shape"
    operation: str
    expression: str

    def message(self) -> str:
        return f"The size of `{self.expression}` depends on the values in a tensor: the graph ends here, and what follows is another one."

    def remedy(self) -> str:
        make = SHAPE_REMEDIES.get(self.operation.strip("_"))
        if make is not None:
            return make
        return f"Use a form of `{self.operation}` with a fixed size (`topk`, `torch.where` with three arguments, a padded buffer)."


SHAPE_REMEDIES = {
    "getitem": "Keep the shape: `torch.where(mask, values, 0)` in place of `values[mask]`, and for a mean divide by `mask.sum()`.",
    "masked_select": "Keep the shape: `torch.where(mask, values, 0)` in place of `torch.masked_select(values, mask)`.",
    "nonzero": "Work with the mask itself (`torch.where(mask, a, b)`), or call `torch.nonzero_static(x, size=n)` with a size of yours.",
    "unique": "Sort instead (`torch.sort(x)`), which keeps the shape, or call `torch.unique` outside the compiled function.",
    "repeat_interleave": "Give `torch.repeat_interleave` the size of its result (`output_size=n`), or repeat by a plain number.",
    "bincount": "Count into a fixed number of bins: `torch.zeros(n).index_add(0, x, torch.ones(x.shape))`.",
}


@dataclass(frozen=True)
class MissingMetaKernel(Reason):
    code: ClassVar[str] = "missing-meta-kernel"
    operation: str
    detail: str

    is_of_torch: bool = False

    def message(self) -> str:
        told = "" if "Meta tensors" in self.detail or "fake impl" in self.detail else f": {self.detail.rstrip('.')}"
        return f"The result sizes of `{self.operation}` cannot be computed without running it{told}."

    def remedy(self) -> str:
        if "nested" in self.operation:
            return NESTED_REMEDY
        if self.is_of_torch:
            return (
                f"torch has no rule for what `{self.operation}` gives: call it outside the compiled function and pass its result in, or "
                "leave it, and a graph goes on behind it."
            )
        return f"Register a meta kernel for `{self.operation}` (`torch.library.register_fake`), or call it outside the compiled function."


NESTED_REMEDY = (
    "Keep a padded tensor and its mask: `torch.nn.TransformerEncoder` does with `enable_nested_tensor=False`, your own code with "
    "`x.to_padded_tensor(0.0)`."
)


@dataclass(frozen=True)
class TorchCallFails(Reason):
    code: ClassVar[str] = "torch-call-fails"
    severity: ClassVar[str] = "information"
    expression: str
    detail: str
    is_caught: bool = False
    """There is a handler around it."""

    def message(self) -> str:
        return f"`{self.expression}` raises with these arguments: {self.detail}"

    def remedy(self) -> str:
        if self.is_caught:
            return (
                "Python hands that to the `except` around it, and runs the function from there on. To have the rest compiled, ask for the "
                f"shape or type before, and leave out `{self.expression}` where it raises."
            )
        return f"Correct the arguments of `{self.expression}`; plain PyTorch raises the same error."


@dataclass(frozen=True)
class UnusualTypes(Reason):
    code: ClassVar[str] = "unusual-types"
    expression: str
    detail: str

    def message(self) -> str:
        return f"`{self.expression}` with operands of these types is run by PyTorch itself: {self.detail}"

    def remedy(self) -> str:
        return f"Give `{self.expression}` operands of one type, such as `y.to(x.dtype)`."


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
    words: str = ""
    """The exception's own, where they are known."""
    is_caught: bool = False
    """There is a handler around it."""

    def message(self) -> str:
        if self.is_caught:
            return f"`{self.what()}` raises {self.exception}, which Python hands to the `except` around it."
        return f"`{self.what()}` raises {self.exception}, and nothing in the captured part catches it."

    def remedy(self) -> str:
        if self.is_caught:
            return "From here on Python runs the function. To have the rest compiled, ask in a way that raises nothing."
        return f"Nothing, where that is meant; the part before `{self.what()}` runs compiled."

    def what(self) -> str:
        """The end of an `except` has no place of its own, but the function's first line."""
        defined = DEFINITION.match(self.expression)
        return self.expression if defined is None else defined[1]


@dataclass(frozen=True)
class ForeignCall(Reason):
    code: ClassVar[str] = "foreign-call"
    function: str
    detail: str = "it is not a PyTorch operation and has no Python code to read"

    def message(self) -> str:
        detail = self.detail
        if detail == ForeignCall.detail and self.function.startswith(("np.", "numpy.")):
            detail = "it computes with NumPy, outside of torch"
        elif detail == ForeignCall.detail and self.function.startswith("random."):
            detail = "it draws with Python's own generator, and what is drawn decides here"
        return f"`{self.function}` cannot be part of a graph: {detail}."

    def remedy(self) -> str:
        return next(make(self.function) for belongs, make in CALL_REMEDIES if belongs(self.function))


@dataclass(frozen=True)
class FinaliserRuns(ForeignCall):
    """A name lets go of the last that it held."""

    detail: str = "what the name held has a finaliser, which runs here"

    def remedy(self) -> str:
        return "Keep the object until the function returns: under a name that nothing else is given to."


TIME_DECIDES = "the time that it reads decides here which way the program goes"


@dataclass(frozen=True)
class ReportingCall(ForeignCall):
    """The call writes to a log or warns."""

    detail: str = "it reports while the function runs"

    def remedy(self) -> str:
        return _remedy_of_a_report(self.function)


@dataclass(frozen=True)
class FirstImport(ForeignCall):
    """The call imports a module, by a statement or as the first that uses a name imported lazily; the next call does not."""

    detail: str = "the module is not imported yet"

    def remedy(self) -> str:
        return "The next call finds it imported. Import it before the function is called, and the first is compiled too."


def is_report(name: str) -> bool:
    """Whether a function is called to write to a log, as its name says."""
    owner, _, method = name.rpartition(".")
    return owner != "" and method in LOG_METHODS and any(word in owner.lower() for word in LOGGERS)


LOG_METHODS = frozenset({"log", "debug", "info", "warning", "warn", "error", "exception", "critical"})
LOGGERS = ("log", "warnings")
BARS = ("tqdm", "pbar", "progress", "bar.update")


def _remedy_of_a_report(name: str) -> str:
    return f"Call `{name}` in the caller, after the compiled function returned; what it reports can be returned as another result."


OTHERWISE_CALLED = {"take_along_axis": "take_along_dim", "digitize": "bucketize"}
"""What torch calls a function of NumPy's where the names differ."""


def _numpy_remedy(name: str) -> str:
    """With the function of torch's that does nearly the same, where there is one."""
    short = name.partition(".")[2]
    twin = OTHERWISE_CALLED.get(short, short)
    found: object = torch
    for part in twin.split("."):
        found = getattr(found, part, None)
    outside = f"call `{name}` before or after the compiled function"
    if name.startswith("torch.") or not callable(found):
        return f"{outside[0].upper()}{outside[1:]}, or compute the same with torch's own functions."
    return f"Write `torch.{twin}` on tensors where its dtypes and the order of equal elements do as well, or {outside}."


TWINS_OF_MATH = frozenset({"isnan", "isinf", "isfinite"})
"""What `math` answers with a truth, and torch with a tensor."""
CALL_REMEDIES = (
    (
        lambda name: name.startswith("math.") and name.removeprefix("math.") in TWINS_OF_MATH,
        lambda name: f"Write `torch.{name.removeprefix('math.')}`, which answers with a tensor, and choose with `torch.where`.",
    ),
    (
        is_report,
        lambda name: _remedy_of_a_report(name),
    ),
    (
        lambda name: any(word in name.lower() for word in BARS),
        lambda name: f"Keep `{name}` in the loop that calls the compiled function, and compile only the loop's body.",
    ),
    (
        lambda name: name.startswith(("np.", "numpy.", "torch.from_numpy")),
        lambda name: _numpy_remedy(name),
    ),
    (
        lambda name: name.rpartition(".")[2] in ("copy", "deepcopy"),
        lambda name: f"Call `{name}` in the caller, after the compiled function returned: nothing is computed by it.",
    ),
    (
        lambda name: name.startswith("random."),
        lambda name: (
            "Draw in the caller and give the function the number, or draw with torch (`torch.rand(())`) and choose with `torch.where`."
        ),
    ),
    (
        lambda name: name.startswith("time.") or name in ("perf_counter", "monotonic"),
        lambda name: f"Measure in the caller: `{name}` around the call of the compiled function.",
    ),
    (
        lambda name: True,
        lambda name: (
            f"Move the call of `{name}` before or after the compiled function, use the torch operation that does the same, or make it "
            "one with `torch.library.custom_op`."
        ),
    ),
)
"""By the called function's name, the remedy; the first that fits."""


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
    mark: str = "disable"
    by_torch: bool = False
    is_given: bool = False
    """Whether it is what the program gives to the compiler."""

    def message(self) -> str:
        if self.by_torch:
            return f"PyTorch itself keeps `{self.function}` out of compiled code."
        return f"`{self.function}` is marked with `{self.mark}`{', and is not compiled' if self.is_given else ''}."

    def remedy(self) -> str:
        if self.by_torch:
            return f"Call `{self.function}` outside the compiled function."
        if self.is_given:
            return f"Remove the mark from `{self.function}`, or do not ask for its compilation."
        return f"Remove the mark from `{self.function}`, or call it outside the compiled function."


@dataclass(frozen=True)
class ForeignValue(Reason):
    code: ClassVar[str] = "foreign-value"
    type_name: str
    operation: str

    def message(self) -> str:
        return f"`{self.operation}` works on a {self.type_name}, whose operations cannot be part of a graph."

    def remedy(self) -> str:
        return (
            f"Compute with the {self.type_name} before or after the compiled function, and give the function the tensors that come of it."
        )


@dataclass(frozen=True)
class ClassComparesItself(Reason):
    """Types are compared and looked up everywhere in a capture. The page is that of `foreign-value`."""

    code: ClassVar[str] = "foreign-value"
    type_name: str
    metaclass: str
    operation: str

    def message(self) -> str:
        return f"`{self.operation}` works on a {self.type_name}, of whose class `{self.metaclass}` says what it is equal to."

    def remedy(self) -> str:
        return f"Leave out `__eq__` and `__hash__` of `{self.metaclass}`, and compare its classes in a method with a name of its own."


@dataclass(frozen=True)
class TextOfTensor(Reason):
    """What a tensor holds, as text. The page is that of `foreign-value`."""

    code: ClassVar[str] = "foreign-value"
    operation: str

    def message(self) -> str:
        return f"`{self.operation}` writes the values of a tensor as text, and they are known only when the program runs."

    def remedy(self) -> str:
        return (
            "Return the tensor as well, and make the text in the caller, after the compiled function; what is only told goes behind "
            "`if not torch.compiler.is_compiling():`."
        )


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
    begins: Literal["inside", "at a break", "at the call"] = "inside"
    """Where the history begins that it leads through."""

    def message(self) -> str:
        if self.begins == "at a break":
            return f"`{self.expression}` leads through what was computed before an earlier break, so the graph ends before it."
        return f"`{self.expression}` runs more of autograd than this graph holds, so the graph ends before it."

    def remedy(self) -> str:
        if self.begins == "at a break":
            return (
                "Mend the break before it: then it is part of one graph with what leads to it. Nothing else has to be done; the backward "
                "pass is compiled too."
            )
        if self.begins == "at the call":
            return (
                "What it leads through was computed before the call: compute that inside too, or differentiate where the compiled function "
                "is called. The backward pass is compiled too."
            )
        return (
            "Compute all that leads to the loss inside, without hooks; or differentiate it where the compiled function is called: "
            "its backward pass is compiled too."
        )


@dataclass(frozen=True)
class RecurrentLayer(Reason):
    code: ClassVar[str] = "recurrent-layer"
    expression: str

    def message(self) -> str:
        return f"`{self.expression}` is a recurrent layer under autocast, or with operands that do not fit it."

    def remedy(self) -> str:
        return "Call it under `torch.autocast(..., enabled=False)`, with its operands in one type, to have it in the graph."


@dataclass(frozen=True)
class TensorSubclass(Reason):
    code: ClassVar[str] = "tensor-subclass"
    type_name: str
    expression: str

    def message(self) -> str:
        if self.type_name.endswith(" tensor"):
            return f"`{self.expression}` is a {self.type_name}, which is more than elements at sizes and strides."
        if self.type_name.startswith("view "):
            return f"`{self.expression}` is a {self.type_name}: autograd may refuse what is done with it."
        return f"`{self.expression}` is a {self.type_name}, a subclass of Tensor with behaviour of its own."

    def remedy(self) -> str:
        if self.type_name == "nested tensor":
            return NESTED_REMEDY
        if self.type_name.endswith(" tensor"):
            return "Compile the parts before and after it, which work on plain tensors (`dequantize`, `to_dense`)."
        make = SUBCLASS_REMEDIES.get(self.type_name)
        if make is not None:
            return make(self.expression)
        return f"Pass plain tensors in place of the {self.type_name}, or compile what comes before and after `{self.expression}`."


class ParameterNotMade(TensorSubclass):
    """A lazy module's parameter or buffer before the module has seen an input. The call that makes it also changes the module's class
    and takes its hooks away."""

    severity: ClassVar[str] = "information"

    def message(self) -> str:
        return f"`{self.expression}` has no shape yet: the first call of its lazy module gives it one."

    def remedy(self) -> str:
        return "That call runs as it was written, and the next one is compiled. Call the module once before, and the first is compiled too."


@dataclass(frozen=True)
class LayerOfSubclass(Reason):
    code: ClassVar[str] = TensorSubclass.code
    type_name: str
    expression: str
    weight: str

    def message(self) -> str:
        return f"`{self.expression}` computes with its `{self.weight}`, a {self.type_name}: a subclass of Tensor with behaviour of its own."

    def remedy(self) -> str:
        return LAYER_RUNS


@dataclass(frozen=True)
class ShardedLayer(Reason):
    """A module that `fully_shard` was applied to, inside of what is compiled."""

    code: ClassVar[str] = "disabled-function"
    module: str

    def message(self) -> str:
        return f"`{self.module}` is sharded by `fully_shard`: its parameters come from the other ranks before it and go after it."

    def remedy(self) -> str:
        return (
            "Nothing is wrong: what is inside is compiled for itself. To have no break, compile the sharded modules one by one "
            "(`module.compile()` for each) and not what is around them."
        )


@dataclass(frozen=True)
class AveragedModule(Reason):
    """A DistributedDataParallel, called inside of what is compiled."""

    code: ClassVar[str] = "disabled-function"
    module: str

    def message(self) -> str:
        return f"`{self.module}` is a DistributedDataParallel: what it does around its module is for all ranks at once."

    def remedy(self) -> str:
        return (
            f"Compile it itself (`torch.compile({self.module})`) and not what calls it: then the module inside is compiled, which here "
            "runs as it was written."
        )


LAYER_RUNS = "Nothing is wrong: the layer runs as it was written, what is around it is compiled."
SUBCLASS_REMEDIES = {
    "DTensor": lambda text: (
        f"{LAYER_RUNS} `{text}.to_local()` gives this rank's part as a plain tensor."
    ),
    "AsyncCollectiveTensor": lambda text: (
        f"Nothing is wrong: what waits for `{text}` runs as it was written. `{text}.wait()` gives a plain tensor."
    ),
}
"""Of classes of torch's own, what their tensors offer."""


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
class ModuleSetting(Reason):
    code: ClassVar[str] = UnsupportedAttribute.code
    target: str

    def message(self) -> str:
        return f"`{self.target} = ...` changes what a library's module holds, which is taken to stay as it is."

    def remedy(self) -> str:
        return f"Set `{self.target}` before the compiled function is called."


@dataclass(frozen=True)
class UnrebuildableValue(Reason):
    """`way_out` where it is no iterator or context that could be finished earlier."""

    code: ClassVar[str] = "unrebuildable-value"
    description: str
    way_out: str = ""

    def message(self) -> str:
        return f"Where the graph ends, {self.description} is still needed, and compiled code cannot make it again."

    def remedy(self) -> str:
        return self.way_out or f"Finish using {self.description} before the graph ends, or turn it into a list first."


@dataclass(frozen=True)
class UntoldOrder(Reason):
    code: ClassVar[str] = "unrebuildable-value"
    expression: str

    def message(self) -> str:
        return f"`{self.expression}` changes a set by another one, both from outside: in which order its items stand then, no guard says."

    def remedy(self) -> str:
        return "Change it by a list or a tuple, or in the caller, before the call or after it."


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
class DebuggerCall(Reason):
    code: ClassVar[str] = "debugger-call"
    severity: ClassVar[str] = "information"
    function: str

    def message(self) -> str:
        return f"`{self.function}` stops in a debugger, which looks at the frames and variables of the program as it was written."

    def remedy(self) -> str:
        return (
            f"Functions that lead there run uncompiled. Take the call of `{self.function}` out to have them compiled."
        )


@dataclass(frozen=True)
class GlobalStateUnsupported(Reason):
    code: ClassVar[str] = "global-state"
    severity: ClassVar[str] = "information"
    state: str
    what_it_does: str = "sees or changes every operation"

    def message(self) -> str:
        return f"{self.state[0].upper()}{self.state[1:]} is active, and {self.what_it_does}."

    def remedy(self) -> str:
        return f"Such calls run as they are written. To have them compiled, call the function without {self.state}."


@dataclass(frozen=True)
class LoopGoesOn(Reason):
    code: ClassVar[str] = "loop-goes-on"
    severity: ClassVar[str] = "information"
    iterable: str

    def message(self) -> str:
        return f"{self._loop()} was left by an earlier break; Python takes its next item."

    def remedy(self) -> str:
        return f"Remove the break inside the {self._loop().removeprefix('The ')}; then all its turns are one graph."

    def _loop(self) -> str:
        head = self.iterable.removesuffix(":")
        return f"The loop `{head}`" if head.startswith("for ") else f"The loop over `{head}`"


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


@dataclass(frozen=True)
class WholeFunctionsOnly(Reason):
    """Where the frames of an interpreter are not known, nothing is entered in the middle."""

    code: ClassVar[str] = "whole-functions-only"
    python: str
    cause: str
    cure: str

    def message(self) -> str:
        return (
            f"On Python {self.python} a function is compiled as a whole or not at all, and here it breaks: {self.cause}"
        )

    def remedy(self) -> str:
        return f"{self.cure} On CPython 3.11 to 3.14 with the GIL what lies before and behind would be compiled."
