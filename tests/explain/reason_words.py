"""The words of every reason that there is, with its fields' names where a case has values: what is not said by any program of the
tests is reviewed all the same.

    said_by(DebuggerCall)  ->  "`function` stops in a debugger, ...\\n  Functions that lead there ... of `function` out ..."

Where a field may be absent, a flag or one of a few words, each way of saying it is there.
"""

import dataclasses
import importlib
import itertools
import pkgutil
import typing

import dynascope
from dynascope.report.reason import Reason

OF_PROGRAMS = {"GuardFailed"}
"""Said of what changed between two calls: the cases that are compiled again have its words."""
ALSO_IN = {"dynascope.codegen.triton.emit"}
"""Modules with a reason that only they know."""
MOST = 12
"""Ways of saying one thing."""
SAMPLES = {"str": None, "int": 2, "float": 2.5, "tuple[str, ...]": ("first", "second"), "tuple[int, ...]": (1, 2)}
OF_FIELDS = {"language": ("c", "c++")}
"""Where a field may be one of a few words and its type does not say so."""
SAMPLES |= {"frozenset[str]": frozenset({"size"}), "tuple[Extent, ...]": (4, 5), "Span | None": None}


def reasons():
    """By title, `hook-unfit (HookUnfit)`, in the alphabet's order."""
    for module in pkgutil.walk_packages(dynascope.__path__, "dynascope."):
        if "reasons" in module.name.rsplit(".", 1)[-1] or module.name in ALSO_IN:
            importlib.import_module(module.name)
    ours = [each for each in _below(Reason) if each.__module__.startswith("dynascope.")]
    found = [each for each in ours if each.code and each.__name__ not in OF_PROGRAMS]
    return {f"{each.code} ({each.__name__})": each for each in sorted(found, key=lambda each: (each.code, each.__name__))}


def said_by(reason):
    """Its rank, and message and remedy in each of their forms."""
    names = [field for field in getattr(reason, "__dataclass_fields__", {}).values() if "ClassVar" not in str(field.type)]
    ways = itertools.product(*map(_values, names))
    told = dict.fromkeys(_words(reason, dict(zip((field.name for field in names), way, strict=True))) for way in ways)
    return "\n".join([reason.severity, *list(told)[:MOST]])


def _words(reason, fields):
    made = reason(**fields)
    return f"  {made.message()}\n  {made.remedy()}"


def _values(field):
    if field.name in OF_FIELDS:
        return OF_FIELDS[field.name]
    kind = str(field.type)
    if kind.startswith("Literal"):
        return typing.get_args(eval(kind, {"Literal": typing.Literal}))
    if kind.startswith("bool"):
        return (False, True)
    sample = field.name if kind == "str" else SAMPLES[kind]
    is_spared = kind == "str" and field.default is not dataclasses.MISSING and not isinstance(field.default, property)
    return (sample, field.default) if is_spared and field.default == "" else (sample,)


def _below(cls):
    for each in cls.__subclasses__():
        yield each
        yield from _below(each)
