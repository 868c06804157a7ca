"""The types and functions that every kernel may use, at the head of a translation unit: scalars, then vectors of each width."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources

from dynascope.codegen.cpp.expressions import RARE, RARE_PAIRS


def prelude(lane_counts: Iterable[int]) -> str:
    return "\n".join([_scalar(), *map(_lanes, lane_counts)])


def random_numbers(lane_counts: Iterable[int]) -> str:
    """What kernels with random numbers need besides; the others are not made to wait for its compilation."""
    return "\n" + "\n".join(_resource("random.h").replace("@N@", str(count)) for count in lane_counts)


@cache
def _scalar() -> str:
    return _filled(_resource("scalar.h"))


@cache
def _lanes(count: int) -> str:
    return _filled(_resource("vector.h")).replace("@N@", str(count))


def _filled(text: str) -> str:
    rare = [f"EACH1({function}, {name})" for name, function in RARE.items() if name not in ("log1p",)]
    rare += [f"EACH2({function}, {name})" for name, function in RARE_PAIRS.items() if name != "fmod" or "namespace" in text]
    return text.replace("@MATHEMATICS@", _resource("mathematics.h")).replace("@RARE@", "\n".join(rare))


def _resource(name: str) -> str:
    return resources.files("dynascope.codegen.cpp").joinpath(name).read_text()
