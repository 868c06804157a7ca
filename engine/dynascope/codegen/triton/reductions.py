"""How each kind of reduction starts, takes in a block, and ends.

rule_for("max", torch.float32)   ->  Rule(identity="float('-inf')", join="larger_single({0}, {1})", ...)
"""

from __future__ import annotations

import torch

from dynascope.codegen.triton.dtypes import TEXT
from dynascope.dataclass import dataclass
from dynascope.loops.nodes import ReduceKind, ScanKind


@dataclass(frozen=True, slots=True)
class Rule:
    """`join` combines two accumulators, `fold` a whole block along {axis}. `type` is the accumulator's."""

    identity: str
    join: str
    fold: str
    type: str
    finish: str = "{0}"


INDEXED: dict[ReduceKind, str] = {"argmax": "first_largest", "argmin": "first_smallest"}
"""Reductions that carry a position along, by the helper that compares."""


def no_position(dtype: str) -> int:
    """No element stands there: the largest number of an integer type, given as text."""
    return 2**63 - 1 if dtype == "tl.int64" else 2**31 - 1


def rule_for(kind: ReduceKind, dtype: torch.dtype) -> Rule:
    """The rule for reducing values of a dtype (the argument's)."""
    if kind in ("any", "all") or (dtype == torch.bool and kind in ("max", "min")):
        return _logical("any" if kind in ("any", "max") else "all")
    if kind == "sum":
        return Rule("0", "{0} + {1}", "tl.sum({0}, {axis})", TEXT[dtype])
    if kind == "prod":
        return Rule("1", "{0} * {1}", "tl.reduce({0}, {axis}, product)", TEXT[dtype])
    largest = kind in ("max", "argmax")
    return _extremum(largest, torch.int32 if dtype == torch.bool else dtype)


@dataclass(frozen=True, slots=True)
class ScanRule:
    """`join` takes what came before and what comes after it; `scan` and `fold` a whole block along {axis}."""

    identity: str
    join: str
    scan: str
    fold: str


def scan_rule_for(kind: ScanKind, dtype: torch.dtype) -> ScanRule:
    if kind == "sum":
        return ScanRule("0", "{0} + {1}", "tl.cumsum({0}, {axis})", "tl.sum({0}, {axis})")
    if kind == "prod":
        return ScanRule("1", "{0} * {1}", "tl.cumprod({0}, {axis})", "tl.reduce({0}, {axis}, product)")
    name = "largest_so_far" if kind == "max" else "smallest_so_far"
    identity = _extremum(kind == "max", dtype).identity
    scan, fold = (f"tl.{function}({{0}}, {{axis}}, {name})" for function in ("associative_scan", "reduce"))
    return ScanRule(identity, f"{name}({{0}}, {{1}})", scan, fold)


def _logical(kind: str) -> Rule:
    function, identity = ("max", "0") if kind == "any" else ("min", "1")
    return Rule(identity, f"tl.{function}imum({{0}}, {{1}})", f"tl.{function}({{0}}, {{axis}})", "tl.int32", "{0} != 0")


def _extremum(largest: bool, dtype: torch.dtype) -> Rule:
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        function, identity = ("max", limits.min) if largest else ("min", limits.max)
        join = f"tl.{function}imum({{0}}, {{1}})"
        return Rule(str(identity), join, f"tl.{function}({{0}}, {{axis}})", TEXT[dtype])
    name = ("larger" if largest else "smaller") + ("_single" if dtype == torch.float32 else "")
    identity = f'float("{"-inf" if largest else "inf"}")'
    return Rule(identity, f"{name}({{0}}, {{1}})", f"tl.reduce({{0}}, {{axis}}, {name})", TEXT[dtype])
