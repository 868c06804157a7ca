"""Options: what a person may set, and the frozen copy that every stage is given.

dynascope.config.random = "eager"            for all that is compiled from now on
dynascope.compile(f, options={"random": "eager"})      for one function
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import replace
from typing import Any, Literal

from dynascope.dataclass import dataclass

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
CHOICES: dict[str, tuple[Any, ...]] = {
    "mode": MODES,
    "random": ("eager", "device"),
    "numerics": ("default", "strict"),
    "dynamic": (None, True, False),
}
"""The settings that have a few values."""


@dataclass(frozen=True)
class Options:
    """Every setting of one compilation. Stages are passed this; none reads a global."""

    backend: Any = "dynascope"
    """A name from `list_backends()` or a callable `(graph, example_inputs) -> callable`."""
    fullgraph: bool = False
    dynamic: bool | None = None
    """None: a number that varies becomes an input after its second value. True: from the first. False: never."""
    mode: str = "default"
    random: Literal["eager", "device"] = "eager"
    """`eager`: random operators draw the numbers that uncompiled code would draw after the same `torch.manual_seed`.
    `device`: a call draws one seed from the device's generator; dropout, bernoulli, rand, randn and their like are computed
    from it inside the kernels that use them, so that runs repeat after `torch.manual_seed` and no mask is kept."""
    numerics: Literal["default", "strict"] = "default"
    """`strict`: results are eager's to the last bit. Kernels compute what each operation rounds as eager does; functions such as
    `exp`, reductions and normalizations are eager's own, and gradients go through the operators that eager's go through."""
    recompile_limit: int = 8
    """Entries of one region after which it runs uncompiled, with a note in the report."""
    inline_limit: int = 500_000
    """Instructions interpreted in one capture after which the graph is closed."""
    cache: bool = True
    """Reuse kernels of earlier processes."""
    on_guards: Any = None
    """Called with the guards of each compilation, `dynascope.guards.guard.Guard`s: `guard_export_fn` of torch's `optimize`."""
    on_guard_failure: Any = None
    """Called where no entry serves a call, with `(reason, orig_code)`: `guard_fail_fn` of torch's `optimize`."""
    looks_only: bool = False
    """What is compiled is looked at and not run: kernels are written, but not built (`dynascope.looking`)."""
    levels: bool = False
    """The report has the levels of each graph that nothing runs too: joint, ATen before decomposition, prims (`dynascope.levels`)."""
    trace: bool = False
    """The report has what capture did, instruction by instruction."""
    profile: bool = False
    """Note how long each kernel and library call takes. Calls are slower by a microsecond for each of them."""
    strict: bool = False
    """What makes a function run slower than it might is an error at the call (`dynascope.StrictError`): a break, a refusal, a
    graph without kernels, a failure of the engine, a guard that raises. `with dynascope.expected("print-call"):` states
    exceptions. For test suites; DYNASCOPE_STRICT=1 turns it on from outside, DYNASCOPE_EXPECTED=code,code states exceptions."""

    @property
    def records_launches(self) -> bool:
        """Whether the launches of a graph on a GPU are recorded, and replayed as one."""
        return self.mode in ("reduce-overhead", "max-autotune")

    @property
    def measures_products(self) -> bool:
        """Whether kernels for products of matrices run while a graph is compiled, beside the library, and the fastest stays."""
        return self.mode in ("max-autotune", "max-autotune-no-cudagraphs")


class Config:
    """`dynascope.config`: the defaults of `Options`, set by attribute. Unknown names raise, with the known ones."""

    def __init__(self) -> None:
        object.__setattr__(self, "_options", Options(strict=os.environ.get("DYNASCOPE_STRICT", "0") not in ("", "0")))

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_options"), _known(name))

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, "_options", replace(self._options, **{_known(name): _allowed(name, value)}))

    def __dir__(self) -> list[str]:
        return sorted(NAMES)

    def options(self, **changes: Any) -> Options:
        """The frozen options, with `changes` for one compilation. Raises `ValueError` for a name that is no setting."""
        for name in changes:
            _allowed(_known(name, ValueError), changes[name])
        return replace(self._options, **changes)


SWITCHES = frozenset(field.name for field in dataclasses.fields(Options) if field.type == "bool")
LIMITS = frozenset(field.name for field in dataclasses.fields(Options) if field.type == "int")
LISTENERS = frozenset(("on_guards", "on_guard_failure"))
NAMES = frozenset(field.name for field in dataclasses.fields(Options))

config = Config()


def _known(name: str, error: type[Exception] = AttributeError) -> str:
    if name not in NAMES:
        raise error(f"dynascope has no setting {name!r}; the settings are {', '.join(sorted(NAMES))}")
    return name


def _allowed(name: str, value: Any) -> Any:
    choices = CHOICES.get(name)
    if choices is not None and not any(value is choice or (type(value) is str and value == choice) for choice in choices):
        raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {value!r}")
    if name in SWITCHES and not isinstance(value, int):
        raise ValueError(f"{name} is True or False, not {value!r}")
    if name in LIMITS and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise ValueError(f"{name} is a whole number from 1 on, not {value!r}")
    if name in LISTENERS and not (value is None or callable(value)):
        raise ValueError(f"{name} is something to call or None, not {value!r}")
    return value
