"""The C++ expression of each scalar operation; the same text serves one element and a vector of lanes.

expression(exp f32, ("x3",))  ->  "exp_(x3)"
"""

from __future__ import annotations

import torch

from dynascope.codegen.cpp.types import ELEMENT, vector
from dynascope.loops.nodes import Compute

INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "&", "or": "|", "xor": "^",
         "shift_left": "<<", "shift_right": ">>"}  # fmt: skip
COMPARISONS = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
FUNCTIONS = {
    "absolute": "absolute", "floor": "floor_", "ceil": "ceil_", "truncate": "trunc_", "round": "round_",
    "square_root": "square_root", "exp": "exp_", "log": "log_", "tanh": "tanh_", "erf": "erf_", "sigmoid": "sigmoid",
    "log1p": "log1p_", "exp2": "exp2_", "expm1": "expm1_", "log2": "log2_", "log10": "log10_", "erfc": "erfc_",
    "sin": "sin_", "cos": "cos_", "tan": "tan_", "asin": "asin_", "acos": "acos_", "atan": "atan_", "sinh": "sinh_",
    "cosh": "cosh_", "asinh": "asinh_", "acosh": "acosh_", "atanh": "atanh_", "lgamma": "lgamma_", "pow": "pow_",
    "atan2": "atan2_", "hypot": "hypot_", "nextafter": "nextafter_", "copysign": "copysign_", "fmod": "fmod_",
    "maximum": "maximum", "minimum": "minimum", "fmax": "fmax_", "fmin": "fmin_", "sign_bit": "sign_bit",
}  # fmt: skip
"""Operations that are a function of the prelude."""

RARE = {
    name: FUNCTIONS[name]
    for name in [
        "exp2",
        "expm1",
        "log2",
        "log10",
        "erfc",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "lgamma",
    ]
}
RARE_PAIRS = {name: FUNCTIONS[name] for name in ["pow", "atan2", "hypot", "nextafter", "fmod"]}
OF_LIBRARY = {"F32": frozenset(["lgamma", "nextafter"]), "F64": frozenset(["erfc", "lgamma", "nextafter"])}
"""Of both, by the type of lanes: what the C library computes, lane by lane."""


def expression(operation: Compute, source: torch.dtype, arguments: tuple[str, ...], lanes: bool) -> str:
    """`source` is the dtype of the (last) argument; `lanes` whether the value is a vector."""
    name = operation.name
    if name == "cast":
        return cast(arguments[0], source, operation.dtype, lanes)
    if name in INFIX:
        return f"{arguments[0]} {INFIX[name]} {arguments[1]}"
    if name in COMPARISONS:
        if source == torch.bool:
            arguments = tuple(f"(-{argument})" for argument in arguments)
        return _truth(f"{arguments[0]} {COMPARISONS[name]} {arguments[1]}", lanes)
    if name in FUNCTIONS:
        return f"{FUNCTIONS[name]}({', '.join(arguments)})"
    return _SPECIAL[name](arguments, source, lanes)


def _truth(comparison: str, lanes: bool) -> str:
    return f"compared({comparison})" if lanes else f"-(mask)({comparison})"


def _one(dtype: torch.dtype) -> str:
    return {torch.float32: "1.f", torch.float64: "1."}.get(dtype, "1")


_SPECIAL = {
    "negate": lambda a, t, lanes: f"-{a[0]}",
    "not": lambda a, t, lanes: f"~{a[0]}",
    "reciprocal": lambda a, t, lanes: f"{_one(t)} / {a[0]}",
    "reciprocal_square_root": lambda a, t, lanes: f"{_one(t)} / square_root({a[0]})",
    "is_nan": lambda a, t, lanes: _truth(f"{a[0]} != {a[0]}", lanes),
    "is_infinite": lambda a, t, lanes: _truth(f"absolute({a[0]}) == ({ELEMENT[t]})__builtin_inf()", lanes),
    "sign": lambda a, t, lanes: cast(
        f"({_truth(f'{a[0]} < 0', lanes)} - {_truth(f'{a[0]} > 0', lanes)})", torch.int32, t, lanes
    ),
    "where": lambda a, t, lanes: f"select({a[0]}, {a[1]}, {a[2]})",
    "floor_divide": lambda a, t, lanes: f"floor_divide({a[0]}, {a[1]})",
    "truncate_divide": lambda a, t, lanes: f"truncate_divide({a[0]}, {a[1]})",
    "remainder": lambda a, t, lanes: f"remainder_({a[0]}, {a[1]})",
}


def cast(value: str, source: torch.dtype, target: torch.dtype, lanes: bool) -> str:
    """A conversion of dtype. Half types go through f32; bool is a mask on either side."""
    if source == target:
        return value
    half = {torch.bfloat16: "bf16", torch.float16: "f16"}
    if source in half:
        return cast(f"{half[source]}_to_f32({value})", torch.float32, target, lanes)
    if target in half:
        return f"f32_to_{half[target]}({cast(value, source, torch.float32, lanes)})"
    if target == torch.bool:
        return _truth(f"{value} != 0", lanes)
    if source == torch.bool:
        value, source = f"(-{value})", torch.int32
    element = ELEMENT[target]
    if source == target:
        return value
    if lanes:
        return f"TO({vector(element)}, {value})"
    if source.is_floating_point and not target.is_floating_point:
        return f"float_to<{element}>({value})"
    return f"({element})({value})"
