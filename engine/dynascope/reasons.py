"""Reasons that concern a whole compilation rather than one stage of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from dynascope.callers import OWN_FOLDER
from dynascope.dataclass import dataclass
from dynascope.frame.stack_names import IN_BETWEEN
from dynascope.report.facts import ONE_OBJECT, SEVERAL_OBJECTS, Cause, ChangeFact
from dynascope.report.reason import Reason


@dataclass(frozen=True)
class EngineError(Reason):
    code = "engine-error"
    severity = "error"
    stage: str
    function: str
    exception: str
    place: str

    @classmethod
    def of(cls, stage: str, function: str, error: BaseException) -> EngineError:
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
        return cls(stage, function, f"{type(error).__name__}: {error}", place)

    def message(self) -> str:
        return f"Dynascope failed in its stage {self.stage} on `{self.function}` ({self.exception}, at {self.place})."

    def remedy(self) -> str:
        return (
            "It runs uncompiled, with the right result. Please report this defect with the program; "
            "`@dynascope.disable` keeps the function out."
        )


@dataclass(frozen=True)
class CallDidNotFail(Reason):
    code = "call-did-not-fail"
    severity = "warning"
    said: str
    text: str

    def message(self) -> str:
        return f"Capture ended the graph here because of an error that the program did not meet ({self.said}): {self.text}"

    def remedy(self) -> str:
        return "The result is right. Please report the expression: it could have been part of the graph."


@dataclass(frozen=True)
class BackendFailed(Reason):
    code = "backend-failed"
    severity = "error"
    backend: str
    exception: str
    text: str
    place: str

    @classmethod
    def of(cls, backend: str, error: BaseException) -> BackendFailed:
        """The place is the last one in the backend's own file: what it called says less to who wrote it."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(OWN_FOLDER)]
        own = [frame for frame in frames if frame.filename == frames[0].filename]
        place = f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
        return cls(backend, type(error).__name__, str(error).strip(), place)

    def message(self) -> str:
        return f"The backend `{self.backend}` raised {self.exception}{self.place} on a captured graph: {self.text}"

    def remedy(self) -> str:
        return "The graph runs operator by operator instead. Mend the backend, or leave out `backend=` for ours."


@dataclass(frozen=True)
class BackendUnknown(Reason):
    code = "backend-unknown"
    severity = "error"
    text: str

    def message(self) -> str:
        return f"Nothing is compiled: {self.text}"

    def remedy(self) -> str:
        return "`dynascope backends` lists the names, and what installs each. Leave out `--backend` for ours."


@dataclass(frozen=True)
class BackendInParts(Reason):
    code = "backend-in-parts"
    severity = "information"
    operators: tuple[str, ...]

    def message(self) -> str:
        return f"The backend has nothing for {', '.join(self.operators)}: run as torch's operators, between its own parts."

    def remedy(self) -> str:
        return "Nothing is wrong: results are the same. Leave out `backend=` for ours, which has kernels for most operators."


@dataclass(frozen=True)
class GuardFailed(Reason):
    code = "recompiled"
    severity = "information"
    failure: str
    change: ChangeFact
    dynamic: bool | None = None
    """Whether sizes may vary, as the program chose."""
    is_in_between: bool = False
    """Whether it was found where a break resumed: a mark on an argument does not reach what was computed since."""
    is_fixed_again: bool = False
    """Whether the compilation that followed takes the size or number for a constant once more."""
    fixed_by: str = ""
    """The backend that takes no sizes and numbers that vary, where that is why each is compiled by itself."""

    def message(self) -> str:
        if self.change.expression.startswith("for "):
            return f"a break left the loop `{self.change.expression}`, which goes on at another item"
        return self.failure

    def remedy(self) -> str:
        if self.change.expression.startswith("for "):
            return f"Remove the break inside the loop `{self.change.expression}`; then all its turns are one graph."
        if self.change.is_first_filling:
            filled = self.change.expression
            return f"The first call fills `{filled}`, and later ones find it so: two compilations, each made once. Leave it."
        if self.is_in_between and self.change.cause in ("requires-grad", "dtype"):
            return f"A break left `{self.change.expression}` so, and what follows is compiled once for each kind. Mend the break before it."
        if self.change.cause == "size" and self.dynamic is not False:
            told = _varying_size(self.change, self.is_in_between)
            if told.startswith(VARIES) and self.is_fixed_again:
                return f"Something that follows needs this size as a constant, so that each is compiled by itself. {_size(self.change)}"
            return told or _size(self.change)
        if self.change.cause in ("number", "attribute") and self.dynamic is False:
            return f"Each value of `{self.change.expression}` is compiled once. {self._else_one_serves('of them')}"
        if self.change.cause in ("number", "attribute") and self.is_fixed_again:
            return f"Something that follows needs this number as a constant, so that each is compiled by itself. {_as_tensor(self.change)}"
        if self.change.cause == "size":
            return f"{_size(self.change)} {self._else_one_serves('sizes')}"
        if IN_BETWEEN in self.change.expression:
            return "That is a library's own, on the way from one break to the next: each of its forms is compiled once, leave it."
        return REMEDIES[self.change.cause](self.change)

    def _else_one_serves(self, what: str) -> str:
        if self.fixed_by:
            return f"The backend `{self.fixed_by}` takes none that vary; of ours one compilation serves all {what}."
        return f"Without `dynamic=False` one compilation serves all {what}."


def _as_tensor(change: ChangeFact) -> str:
    """Where a number is none that varies, what makes it one."""
    if change.cause == "attribute":
        name = change.expression.rpartition(".")[2]
        return f"Keep it as a tensor: `self.register_buffer({name!r}, torch.tensor({change.before or 0}))`."
    if change.expression.isidentifier():
        return f"Pass `torch.tensor({change.expression})` where it is only reckoned with; leave it where there are few values."
    return "Leave that part to the caller where there are many values."


def _keep_off(change: ChangeFact) -> str:
    name = change.expression.rpartition(".")[2]
    return (
        f"From now on `{change.expression}` is an input of the graph, and one compilation serves all its values: leave it. Where it is "
        "compiled anew all the same, because a branch or a size asks for it, look at it in the caller, or keep it as a tensor: "
        f"`self.register_buffer({name!r}, torch.tensor({change.before or 0}))`."
    )


def _number(change: ChangeFact) -> str:
    elsewhere = f"pass `torch.tensor({change.expression})` there" if change.expression.isidentifier() else "leave that part to the caller"
    return (
        f"From now on `{change.expression}` is an input of the graph, and one compilation serves all its values: leave it. Only where a "
        f"value is needed as a size or an index, each one is compiled anew: {elsewhere}."
    )


VARIES = "From now on such sizes are numbers of their own"


def _varying_size(change: ChangeFact, is_in_between: bool) -> str:
    """Where a size may be a number of its own; empty where more than sizes differs."""
    before, now = (_sizes_in(text) for text in (change.before, change.now))
    if len(before) != len(now):
        return ""
    changed = [d for d, (one, other) in enumerate(zip(before, now, strict=True)) if one != other and not one.isalpha()]
    if any(now[d] in ("0", "1") for d in changed):
        return "Sizes of 0 and 1 are compilations of their own, each made once: leave it."
    dimensions = [d for d in changed if now[d].isdigit() and before[d].isdigit()]
    if not dimensions:
        return ""
    marked = dimensions[0] if len(dimensions) == 1 else dimensions
    can_be_marked = change.expression.isidentifier() and not is_in_between
    how = f"`dynascope.mark_dynamic({change.expression}, {marked})`, or `dynamic=True`" if can_be_marked else "`dynamic=True`"
    return (
        f"{VARIES}, and one compilation serves all of them. To have it from the first call on: {how}."
    )


def _sizes_in(text: str) -> list[str]:
    inside = text.partition("[")[2].rstrip("]")
    return [size.strip() for size in inside.split(",")] if inside else []


def _size(change: ChangeFact) -> str:
    if not change.expression.replace(".", "").isidentifier():
        return (
            f"`{change.expression}` has another size nearly every time, and what follows it is compiled for each. Make it of one size, "
            "with a mask or padding."
        )
    return (
        f"Keep the sizes of `{change.expression}` the same: pad them to a few, and where only the last batch is smaller give the "
        "loader `drop_last=True`."
    )


def _none(change: ChangeFact) -> str:
    if "[" not in change.before + change.now:  # no tensor
        return f"`{change.expression}` with a value and without are two compilations, each made once: leave it."
    return (
        f"`{change.expression}` with a value and without are two compilations, each made once: leave it. To have one, give it a "
        "tensor that changes nothing in place of None."
    )


def _grad_mode(change: ChangeFact) -> str:
    return "With gradients and without them are two compilations, each made once: leave it."


def _state(change: ChangeFact) -> str:
    return "Enter the same state (autocast, default dtype, modes) around every call of the function."


def _dtype(change: ChangeFact) -> str:
    return f"Give `{change.expression}` one dtype and one device before the call, with `.to(...)`."


def _requires_grad(change: ChangeFact) -> str:
    name = change.expression
    return f"With its gradient and without it are two compilations, each made once: leave it, or detach `{name}` before the calls."


def _layout(change: ChangeFact) -> str:
    if "1" in _sizes_in(change.now):
        # Those of a dimension of one element are any to `contiguous()`, which then gives the tensor itself.
        return (
            f"Pass `{change.expression}.clone(memory_format=torch.contiguous_format)`, so that its strides are the same in every call, "
            "or leave it: each is compiled once."
        )
    return f"Pass `{change.expression}.contiguous()`, so that its strides are the same in every call."


def _length(change: ChangeFact) -> str:
    if "key" in change.before + change.now:
        return (
            f"Give `{change.expression}` all its keys before the first call, or fill it in the caller; each set of keys is compiled once."
        )
    if change.expression.startswith("[... "):
        return "Mend the break inside the comprehension: what it has made so far is then no longer looked at, and it is compiled once."
    return f"Give `{change.expression}` the same number of items in every call, or pass one tensor that holds them."


def _value(change: ChangeFact) -> str:
    return (
        f"Each value of `{change.expression}` is compiled once. For a flag that is as it should be; what differs in every call is better "
        "left to the caller."
    )


def _type(change: ChangeFact) -> str:
    return f"Pass `{change.expression}` with the same type in every call; each type is compiled once."


def _object(change: ChangeFact) -> str:
    return f"Make `{change.expression}` once, before the calls, and pass the same object each time."


HOOKS = frozenset({"_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"})


def _other(change: ChangeFact) -> str:
    if change.expression.rpartition(".")[2] in HOOKS:
        return "Each layer's hooks are its own: they are compiled once for each, leave it."
    if change.before in ("true", "false"):
        return f"With and without anything in `{change.expression}` are two compilations, each made once: leave it."
    if change.before in (ONE_OBJECT, SEVERAL_OBJECTS):
        return (
            f"Which of the given objects are one and the same is part of a compilation, here of `{change.expression}`: make one tensor of "
            "them in the caller with `torch.stack`, or give each place an object of its own."
        )
    return (
        f"Each case of `{change.expression}` is compiled once: where there are few, leave it. Where there are many, look at it in the "
        "caller, and give the function what follows from it as an argument."
    )


REMEDIES: dict[Cause, Callable[[ChangeFact], str]] = {
    "number": _number,
    "attribute": _keep_off,
    "size": _size,
    "none": _none,
    "grad-mode": _grad_mode,
    "state": _state,
    "type": _type,
    "dtype": _dtype,
    "requires-grad": _requires_grad,
    "layout": _layout,
    "length": _length,
    "value": _value,
    "object": _object,
    "other": _other,
}


@dataclass(frozen=True)
class GuardRaises(Reason):
    code = "guard-raises"
    guard: str
    exception: str

    def message(self) -> str:
        return f"Asking whether {self.guard} raised {self.exception}."

    def remedy(self) -> str:
        return (
            "It counts as a guard that failed, so the call is compiled again. If the exception comes from an `__eq__` or a "
            "property of yours, mend it; else please report this defect with the program."
        )


@dataclass(frozen=True)
class GuardFailsAtOnce(Reason):
    code = "guard-fails-at-once"
    guard: str
    failure: str

    def message(self) -> str:
        return f"That {self.guard} was assumed, and does not hold for the call that it was assumed of: {self.failure}."

    def remedy(self) -> str:
        return "Every such call is compiled again, until the limit. Please report this defect with the program."


@dataclass(frozen=True)
class KnownAfterARun(Reason):
    code = "known-after-a-run"
    severity = "information"
    expression: str

    def message(self) -> str:
        return f"What follows is known after a run: `{self.expression}` is for Python to run."

    def remedy(self) -> str:
        return "What is shown up to here is as edited. Run the program again to see the rest."


@dataclass(frozen=True)
class DiffersMore(Reason):
    code = "differs-more-than-eager"
    name: str
    kind: str
    compiled: float
    eager: float

    def message(self) -> str:
        what = f"The gradient of `{self.name}`" if self.kind == "gradient" else f"`{self.name}`"
        return f"{what} is {self.compiled:.1g} from a run in float64 when compiled, {self.eager:.1g} in eager."

    def remedy(self) -> str:
        return "It is the first line that differs more than eager does. Please report it with the program."


@dataclass(frozen=True)
class NotChecked(Reason):
    code = "not-checked"
    severity = "information"
    function: str
    error: str

    def message(self) -> str:
        return f"A graph of `{self.function}` could not be run beside float64: {self.error}"

    def remedy(self) -> str:
        return "Its values are not compared; those of the other graphs are."


@dataclass(frozen=True)
class RecompileLimit(Reason):
    code = "recompile-limit"
    function: str
    entries: int
    latest: str

    def message(self) -> str:
        return (
            f"`{self.function}` was compiled {self.entries} times and still meets new cases; "
            f"from now on those run uncompiled. The latest: {self.latest}"
        )

    def remedy(self) -> str:
        return (
            "Keep what changes out of the function (compute it before the call), pass it as a tensor, "
            "or raise `dynascope.config.recompile_limit`."
        )


@dataclass(frozen=True)
class PreparesData(Reason):
    """Of a program that asks for no compilation: a function that a `DataLoader` calls."""

    code = "prepares-data"
    severity = "information"

    def message(self) -> str:
        return "A DataLoader calls this function to prepare its samples: it runs as it is written."

    def remedy(self) -> str:
        return "Nothing is to be done. Where it is worth compiling, write `@torch.compile` above it."


@dataclass(frozen=True)
class MissingTorch(Reason):
    code = "missing-torch"
    severity = "error"
    interpreter: str
    wanted: str

    def message(self) -> str:
        return f"The interpreter {self.interpreter} has no torch."

    def remedy(self) -> str:
        return f"Install it (`{self.interpreter} -m pip install 'torch{self.wanted}'`), or choose an interpreter that has it."


@dataclass(frozen=True)
class WrongTorch(Reason):
    code = "wrong-torch"
    severity = "error"
    interpreter: str
    found: str
    wanted: str

    def message(self) -> str:
        return (
            f"torch {self.found} of {self.interpreter} is too old to be compiled for (Dynascope works with "
            f"{self.wanted}): the program runs as it was written."
        )

    def remedy(self) -> str:
        return f"Install a newer one (`{self.interpreter} -m pip install 'torch{self.wanted}'`), or choose another interpreter."


@dataclass(frozen=True)
class BrokenTorch(Reason):
    code = "broken-torch"
    severity = "error"
    interpreter: str
    detail: str

    def message(self) -> str:
        return f"The torch of {self.interpreter} cannot work ({self.detail}): the program runs as it was written."

    def remedy(self) -> str:
        return f"Install it anew (`{self.interpreter} -m pip install --force-reinstall torch`), or choose another interpreter."


@dataclass(frozen=True)
class WrongPython(Reason):
    code = "wrong-python"
    severity = "error"
    interpreter: str
    found: str
    lowest: str

    def message(self) -> str:
        return (
            f"{self.interpreter} is Python {self.found}; Dynascope compiles from CPython {self.lowest} on: the program "
            "runs as it was written."
        )

    def remedy(self) -> str:
        return f"Choose an interpreter of CPython {self.lowest} or later that has torch."


@dataclass(frozen=True)
class NewerTorch(Reason):
    code = "newer-torch"
    severity = "information"
    found: str
    lowest: str
    newest: str

    def message(self) -> str:
        return f"torch {self.found} is newer than what Dynascope was tested with ({self.lowest} to {self.newest})."

    def remedy(self) -> str:
        return "Nothing is needed: what depends on torch's insides was tried first. Report what differs from eager."


@dataclass(frozen=True)
class NewerPython(Reason):
    code = "newer-python"
    severity = "information"
    found: str
    lowest: str
    newest: str

    def message(self) -> str:
        return f"Python {self.found} is newer than what Dynascope was tested with ({self.lowest} to {self.newest})."

    def remedy(self) -> str:
        return "Nothing is needed: what depends on CPython's insides was tried first. Report what differs from eager."


@dataclass(frozen=True)
class SelfCheckFailed(Reason):
    """On a version that is newer than tested. `subject` is what does not hold there."""

    code = "self-check-failed"
    subject: str
    fault: str

    def message(self) -> str:
        return f"Nothing is compiled in this process: the self-check of {self.subject} failed ({self.fault})."

    def remedy(self) -> str:
        return "Use a version of Python and torch that Dynascope was tested with (`dynascope doctor` names them)."


@dataclass(frozen=True)
class TensorLayoutUnknown(Reason):
    code = "tensor-layout-unknown"
    severity = "information"
    torch: str

    def message(self) -> str:
        return (
            f"Where torch {self.torch} keeps a tensor's sizes and type could not be proved, so guards on tensors are "
            "checked in Python and each call of a compiled function is slower."
        )

    def remedy(self) -> str:
        return "Use a version of torch that Dynascope was tested with (`dynascope doctor` names them)."


@dataclass(frozen=True)
class RankAlone(Reason):
    """Said while the program runs, by the rank that has compiled again."""

    code = "rank-alone"
    severity = "warning"
    function: str
    rank: int
    others: tuple[int, ...]
    why: str

    def message(self) -> str:
        several = len(self.others) > 1
        others = f"rank{'s' if several else ''} {', '.join(map(str, self.others))} ha{'ve' if several else 's'} not"
        return f"Rank {self.rank} compiled `{self.function}` again, and {others} since: {self.why}"

    def remedy(self) -> str:
        return (
            "If the program stands still, the ranks are at different collectives: give each the same sizes, numbers and branches, "
            "or mark what varies with `dynascope.mark_dynamic`. Else it cost the others a wait."
        )
