"""One random tensor program, compiled against eager and against float64: `check(program)` raises `Different`.

Each side makes its own inputs and gets the same calls in the same order; what a call left behind the next one sees. Compared
after every call: values (at most four times as far from float64 as eager's, or as eager goes when its inputs move by two last
places), types, sizes, strides, gradients, which tensors
share memory or are one object among inputs, results and gradients, effects in order, and exceptions with their lines.
"""

from __future__ import annotations

import contextlib
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dynascope
import torch
from comparing import memory_of, same_layout
from dynascope.command.explain import codes
from tensor_programs import Call, Program
from torch.utils.hooks import RemovableHandle

DEFECTS = ("internal-failure", "engine-error", "guard-raises", "guard-fails-at-once", "kernel-generation-failed",
           "compilation-failed", "kernels-not-built", "backend-failed")  # fmt: skip
"""What no program may meet. Breaks and refusals are the program's own, and here there are many."""


class Different(AssertionError):
    """`kind` is the same for the same defect, so that a shrunk program can be told from one that fails otherwise."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


@dataclass
class Seen:
    """What one call did, as copies: nothing here changes when the program goes on."""

    exception: tuple | None = None
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    sharing: list[tuple[str, int, int]] = field(default_factory=list)


def check(program: Program, folder: Path, backend: Any = "dynascope", device: str = "cpu") -> None:
    file = folder / f"program_{program.seed}.py"
    file.write_text(program.text())
    compiling = _compiled(backend)
    with warnings.catch_warnings(), dynascope.expected(*set(codes()) - set(DEFECTS), required=False) as expectation:
        warnings.simplefilter("ignore")
        counts = backend == "eager"
        theirs = _side(program, file, device, counts)
        exact = _side(program, file, device, counts, exact=True)
        try:
            ours = _side(program, file, device, counts, compiling)
        except dynascope.StrictError as error:
            raise Different(error.explanation.code, str(error)) from error
    if expectation.unexpected:
        found = expectation.unexpected[0]
        raise Different(found.code, f"{found.message} at {found.span}")
    copies, overwritten = False, [_is_overwritten(each.exception) for each in theirs]
    for number, a in enumerate(ours):
        if backend != "eager" and overwritten[number]:
            if (a.exception or ("",))[0] == "backward" or "create_graph" in program.text():
                break  # all that follows differs by what the error left undone; copies have no gradients of gradients
            if not copies:
                copies = True
                theirs = _side(program, file, device, counts, copies=True)
                exact = _side(program, file, device, counts, exact=True, copies=True)
        try:
            _compare(f"call {number}", a, theirs[number], exact[number], backend != "eager")
        except Different as error:
            if error.kind != "value":
                raise
            nudged = _side(program, file, device, counts, nudged=True, copies=copies)
            _compare(f"call {number}", a, theirs[number], exact[number], backend != "eager", nudged[number].tensors)


def _is_overwritten(exception: tuple | None) -> bool:
    """Whether eager's backward pass missed what was changed in place. Kernels compute with values: nothing is overwritten
    inside of one graph (`ARCHITECTURE.md`). What their gradients must be then is what eager's are where it saves copies."""
    return exception is not None and exception[0] == "backward" and "modified by an inplace operation" in exception[2]


def _compiled(backend: Any) -> Callable:
    return lambda function: dynascope.compile(function, backend=backend, options={"strict": True})


def _side(
    program: Program, file: Path, device: str, counts: bool, compiling: Callable | None = None, exact: bool = False,
    nudged: bool = False, copies: bool = False,
) -> list[Seen]:  # fmt: skip
    """With `copies` what eager saves for its backward pass is copied: gradients are of the values at the time."""
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    space |= {"EXACT": exact, "NUDGED": nudged, "DEVICE": device}
    if exact:
        space |= dict.fromkeys(("F16", "BF16", "F32"), torch.float64) | {"C64": torch.complex128}
    function = compiling(space["program"]) if compiling else space["program"]
    shared, states, seen = {"log": [], "holder": space["Holder"]()}, {}, []
    with _floats_of(torch.float64 if exact else torch.get_default_dtype()):
        for number, call in enumerate(program.calls):
            if call.sizes not in states:
                states[call.sizes] = space["make"](*(call.sizes or ())) | shared
            with torch.autograd.graph.saved_tensors_hooks(_copy, _as_it_is) if copies else contextlib.nullcontext():
                seen.append(_call(program, function, states[call.sizes], call, number, str(file), counts))
    return seen


@contextlib.contextmanager
def _floats_of(dtype: torch.dtype) -> Iterator[None]:
    """What functions make of integers, too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _copy(saved: torch.Tensor) -> torch.Tensor:
    return saved.detach().clone()


def _as_it_is(saved: torch.Tensor) -> torch.Tensor:
    return saved


def _call(
    program: Program, function: Callable, state: dict, call: Call, number: int, file: str, counts: bool
) -> Seen:  # fmt: skip
    seen, results = Seen(), None
    arguments = {name: _rows(value, call.rows) for name, value in state.items()}
    if isinstance(state.get("m"), torch.nn.Module):
        state["m"].train(call.mode != "eval")
    torch.manual_seed(number)
    with _mode(call.mode, arguments):
        try:
            results = function(**arguments, n=call.n, flag=call.flag)
        except dynascope.StrictError:
            raise
        except Exception as error:
            seen.exception = _exception(error, file, counts)
    leaves = _leaves(state)
    if results is not None and call.mode not in ("no_grad", "inference"):
        seen.exception = _backward(program, results, leaves, number, counts)
    _record(seen, arguments, results, leaves, state, counts)
    return seen


def _rows(value: Any, rows: int | None) -> Any:
    return value[:rows] if rows is not None and isinstance(value, torch.Tensor) and value.dim() else value


@contextlib.contextmanager
def _mode(mode: str, arguments: dict) -> Iterator[None]:
    kinds = {value.device.type for value in arguments.values() if isinstance(value, torch.Tensor)}
    if mode == "autocast":
        with torch.autocast(kinds.pop() if kinds else "cpu", dtype=torch.bfloat16):
            yield
    elif mode in ("no_grad", "inference"):
        with torch.no_grad() if mode == "no_grad" else torch.inference_mode():
            yield
    else:
        yield


def _leaves(state: dict) -> dict[str, torch.Tensor]:
    """What gradients are kept for: inputs, or what they are views of, and parameters."""
    found = {}
    for name, value in state.items():
        if isinstance(value, torch.nn.Module):
            found |= {f"{name}.{key}": each for key, each in value.named_parameters()}
        elif isinstance(value, torch.Tensor):
            leaf = value if value._base is None else value._base
            if leaf.is_leaf and leaf.requires_grad:
                found[name] = leaf
    return found


def _backward(program: Program, results: list, leaves: dict, number: int, counts: bool) -> tuple | None:
    """Losses over part of the results, one after the other, accumulating; then perhaps clipped and stepped."""
    usable = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad and r.is_floating_point()]
    chosen = dict.fromkeys(place % len(usable) for place in program.losses) if usable else {}
    try:
        for place in reversed(chosen) if number % 2 else chosen:
            generator = torch.Generator().manual_seed(place)
            weights = torch.randint(-8, 9, usable[place].shape, generator=generator) / 8
            usable[place].backward(weights.to(usable[place]), retain_graph=True)
        given = [leaf for leaf in leaves.values() if leaf.grad is not None]
        if program.clipped and number == 1 and given:
            torch.nn.utils.clip_grad_norm_(given, 0.5)
        if program.steps:
            with torch.no_grad():
                for leaf in given:
                    leaf.sub_(leaf.grad, alpha=0.125)
    except RuntimeError as error:
        return ("backward", type(error), _text(error, counts).splitlines()[0])
    return None


def _text(error: Exception, counts: bool) -> str:
    """A lowered graph is one step to autograd, which names its functions and counts writes to its results once a call."""
    names = r"(output|version) \d+|(?<=of )[\w:]+(?= is a view|, is at)|(?<=Tensor )\[[\d, ]*\]"
    return str(error) if counts else re.sub(names, "", str(error), flags=re.IGNORECASE)


def _exception(error: Exception, file: str, counts: bool) -> tuple:
    lines = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    if isinstance(
        error, UnboundLocalError
    ):  # CPython 3.11 joins `a = ...; a` to one instruction, which has the first line
        lines = [name for name, _ in lines]
    return type(error), _text(error, counts), lines


def _record(seen: Seen, arguments: dict, results: Any, leaves: dict, state: dict, counts: bool) -> None:
    found: dict[str, torch.Tensor] = {}
    _collect(found, seen.facts, "argument", {k: v for k, v in arguments.items() if k not in ("log", "holder", "m")})
    _collect(found, seen.facts, "leaf", leaves)
    _collect(found, seen.facts, "effect", {"log": state["log"], **vars(state["holder"])})
    if "m" in state:
        _collect(
            found,
            seen.facts,
            "net",
            {**dict(state["m"].named_buffers()), "calls": state["m"].calls, "training": state["m"].training},
        )
    _collect(found, seen.facts, "result", results)
    _collect(found, seen.facts, "gradient", {name: leaf.grad for name, leaf in leaves.items()})
    objects, memories = [id(t) for t in found.values()], [memory_of(t) for t in found.values()]
    for name, tensor in found.items():
        seen.sharing.append((name, objects.index(id(tensor)), memories.index(memory_of(tensor))))
        seen.tensors[name] = tensor.detach().clone(memory_format=torch.preserve_format)
        seen.facts[f"{name} tensor"] = tuple(_asked(tensor, ask, counts) for ask in FACTS.values())


FACTS = {
    "sizes": lambda tensor: tuple(tensor.shape),
    "strides": lambda tensor: tensor.stride(),
    "offset": lambda tensor: tensor.storage_offset(),
    "requires_grad": lambda tensor: tensor.requires_grad,
    "is_leaf": lambda tensor: tensor.is_leaf,
    "is_inference": lambda tensor: tensor.is_inference(),
    "device": lambda tensor: tensor.device,
    "version": lambda tensor: tensor._version,
}


def _asked(tensor: torch.Tensor, ask: Callable[[torch.Tensor], Any], counts: bool) -> Any:
    """A view whose base was written to may refuse to say."""
    try:
        return ask(tensor)
    except RuntimeError as error:
        return type(error), _text(error, counts)


def _collect(found: dict[str, torch.Tensor], facts: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        found[name] = value
        facts[f"{name} type"] = value.dtype
    elif isinstance(value, dict):
        for key, each in value.items():
            _collect(found, facts, f"{name}.{key}", each)
    elif isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        for key, each in enumerate(value):
            _collect(found, facts, f"{name}[{key}]", each)
        facts[f"{name} length"] = (type(value), len(value))
    else:
        facts[name] = type(value) if isinstance(value, RemovableHandle) else value


def _compare(where: str, ours: Seen, theirs: Seen, exact: Seen, is_lowered: bool, nudged: dict | None = None) -> None:
    if ours.exception != theirs.exception:
        kind = _kind_of_exceptions(ours.exception, theirs.exception)
        raise Different(kind, f"{where}: {ours.exception}, eager {theirs.exception}")
    if is_lowered and (theirs.exception or ("",))[0] == "backward":
        return  # an error of a region leaves no gradients behind that eager wrote first (`ARCHITECTURE.md`)
    for name, fact in theirs.facts.items():
        mine = ours.facts.get(name, "nothing")
        if name.endswith(" tensor"):
            _compare_tensor_facts(
                where,
                name,
                mine,
                fact,
                ours.tensors.get(name.removesuffix(" tensor")),
                theirs.tensors[name.removesuffix(" tensor")],
                has_place=not is_lowered or name.startswith(("argument", "leaf")),
            )
        elif mine != fact and not (isinstance(fact, float) and fact != fact):
            raise Different(
                f"{'dtype' if name.endswith(' type') else 'effect'} of {name[:6]}",
                f"{where}: {name} is {mine}, eager {fact}",
            )
    if ours.facts.keys() != theirs.facts.keys():
        raise Different("effect", f"{where}: {sorted(ours.facts.keys() ^ theirs.facts.keys())[:4]}")
    for mine, other in zip(ours.sharing, theirs.sharing, strict=True):
        if mine != other:
            raise Different(
                f"sharing of {mine[0][:6]}", f"{where}: {mine}, eager {other}; {[n for n, *_ in theirs.sharing]}"
            )
    for name, tensor in theirs.tensors.items():
        _compare_values(
            f"{where}: {name}", ours.tensors[name], tensor, exact.tensors.get(name), (nudged or {}).get(name)
        )


def _kind_of_exceptions(ours: tuple | None, theirs: tuple | None) -> str:
    if ours is None or theirs is None:
        return f"raises {(ours or ('nothing',))[0]} for {(theirs or ('nothing',))[0]}"
    differs = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), 0)
    return f"exception's {('type', 'message', 'lines')[min(differs, 2)]}"


def _compare_tensor_facts(
    where: str, name: str, ours: Any, theirs: Any, mine: Any, other: Any, has_place: bool
) -> None:
    """`has_place`: a part of what nobody else sees may have memory of its own in lowered graphs."""
    if ours == "nothing":
        raise Different("effect", f"{where}: no {name}")
    for fact, a, b in zip(FACTS, ours, theirs, strict=True):
        if (
            a == b
            or fact == "strides"
            and same_layout(mine, other)
            or (fact == "version" and not name.startswith("argument"))  # some of torch's own functions write what they make
            or fact == "offset"
            and (other.numel() == 0 or not has_place)
        ):
            continue
        raise Different(f"{fact} of {name[:6]}", f"{where}: {name} {a}, eager {b}")


def _compare_values(
    where: str, ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor | None, nudged: torch.Tensor | None = None
) -> None:
    if not theirs.numel():
        return
    if not (theirs.is_floating_point() or theirs.is_complex()):
        if not torch.equal(ours, theirs):
            raise Different("value", f"{where}: {ours}, eager {theirs}")
        return
    a, b = (torch.view_as_real(t.resolve_conj().resolve_neg()) if t.is_complex() else t for t in (ours, theirs))
    a, b = a.double(), b.double()
    if not torch.equal(a.isnan(), b.isnan()) or not torch.equal(a.isinf(), b.isinf()):
        raise Different("value", f"{where}: not finite in other places: {ours}, eager {theirs}")
    finite = b.isfinite()
    a, b = a[finite], b[finite]
    if not a.numel():
        return
    epsilon = torch.finfo(theirs.dtype).eps
    scale = b.abs().max().clamp(min=1e-3)
    apart = (a - b).abs().max()
    if exact is None or exact.shape != theirs.shape or not exact.dtype.is_floating_point or theirs.is_complex():
        own_error = apart.new_zeros(())
    else:
        c = exact.double()[finite]
        own_error, apart = (b - c).abs().max(), (a - c).abs().max() if c.isfinite().all() else apart
    if nudged is not None and nudged.shape == theirs.shape and nudged.dtype == theirs.dtype and not theirs.is_complex():
        own_error = torch.maximum(own_error, (b - nudged.double()[finite]).nan_to_num(0, 0, 0).abs().max())
    coarse = 0.06 if epsilon > 1e-4 else 2e-3
    if (
        apart > 4 * own_error + 64 * epsilon * scale
        or (ours.double() - theirs.double() if not theirs.is_complex() else a - b).nan_to_num().abs().max()
        > coarse * scale + 8 * own_error
    ):
        raise Different(
            "value", f"{where}: off by {float(apart):.3g}, eager by {float(own_error):.3g}: {ours}, eager {theirs}"
        )
