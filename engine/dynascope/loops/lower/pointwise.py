"""Elementwise operators. Each rule is the formula over scalars; promotion, broadcasting and rounding are done here once.

add(x bf16[8], y bf16[8])   ->   cast bf16 (add (cast f32 (load x)) (cast f32 (load y)))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import fx

from dynascope.loops.body import Scalar
from dynascope.loops.lower.numbers import checked
from dynascope.loops.lower.promotion import (
    Numbers,
    is_scalar_operand,
    operands_dtype,
    promoted_element,
    refuse_overflow,
    result_dtype,
)
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, Refused, rule
from dynascope.loops.nodes import ScalarInput, TensorView
from dynascope.sizes import Size, is_constant

aten = torch.ops.aten
Formula = Callable[..., Scalar]

SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def elementwise(
    call: Lowering, formula: Formula, dtype: torch.dtype, operands: tuple[Any, ...], numbers: Numbers = "rounded"
) -> Lowered:
    """One pointwise node: `formula` over the operands, promoted to `dtype`, in the type that eager computes that in."""
    nest = call.nest(call.results[0].shape)
    scalars = [promoted_element(call, nest, value, dtype, numbers) for value in operands]
    return call.finish(nest, formula(*scalars))


def _register(
    formulas: dict[str, Formula], arity: int, dtype_of: Callable[[Lowering, tuple[Any, ...]], torch.dtype]
) -> None:
    """Operators that take `arity` tensors or numbers and nothing else."""
    for name, formula in formulas.items():
        packet = getattr(aten, name, None)
        if packet is not None:
            rule(packet)(_plain_rule(formula, arity, dtype_of))


def _plain_rule(formula: Formula, arity: int, dtype_of: Any) -> Callable[[Lowering], Lowered | NotLowered]:
    def apply(call: Lowering) -> Lowered | NotLowered:
        if len(call.arguments) != arity or call.keywords:
            return NotLowered("called with options that have no loop form")
        return elementwise(call, formula, dtype_of(call, call.arguments), call.arguments)

    return apply


def _floating_only(formula: Formula) -> Formula:
    def check(*scalars: Scalar) -> Scalar:
        if not scalars[0].dtype.is_floating_point:
            raise Refused("integers take another path in eager")
        return formula(*scalars)

    return check


def _named(name: str) -> Formula:
    return lambda *scalars: scalars[0].apply(name, *scalars[1:])


def _rounding(name: str) -> Formula:
    return lambda x: x.apply(name) if x.dtype.is_floating_point else x


# -- one operand ------------------------------------------------------------------------------------------------------


def relu(x: Scalar) -> Scalar:
    """Of 0 and -0 it is the operand that stays, as in every clamp."""
    return x.like(0).apply("maximum", x)


def silu(x: Scalar) -> Scalar:
    return x / (1.0 + (-x).apply("exp"))


def softplus_formula(x: Scalar, beta: float, threshold: float) -> Scalar:
    scaled = x * beta
    return scaled.greater(threshold).where(x, scaled.apply("exp").apply("log1p") / beta)


def mish(x: Scalar) -> Scalar:
    return x * x.apply("exp").apply("log1p").apply("tanh")


def hard_sigmoid(x: Scalar) -> Scalar:
    return (x + 3.0).apply("maximum", 0.0).apply("minimum", 6.0) / 6.0


def hard_swish(x: Scalar) -> Scalar:
    return x * (x + 3.0).apply("maximum", 0.0).apply("minimum", 6.0) / 6.0


def logical_not(x: Scalar) -> Scalar:
    return x.cast(torch.bool).apply("not")


def is_nan(x: Scalar) -> Scalar:
    return x.apply("is_nan") if x.dtype.is_floating_point else x.builder.constant(False, torch.bool)


def is_infinite(x: Scalar) -> Scalar:
    return x.apply("is_infinite") if x.dtype.is_floating_point else x.builder.constant(False, torch.bool)


def sign(x: Scalar) -> Scalar:
    return x if x.dtype == torch.bool else x.apply("sign")


_FLOATS = "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc"
_register(
    {name: _named(name) for name in _FLOATS.split()}
    | {
        "sqrt": _named("square_root"),
        "rsqrt": _named("reciprocal_square_root"),
        "reciprocal": _named("reciprocal"),
        "sigmoid": _named("sigmoid"),
        "neg": _named("negate"),
        "abs": lambda x: x if x.dtype == torch.bool else x.apply("absolute"),
        "floor": _rounding("floor"),
        "ceil": _rounding("ceil"),
        "trunc": _rounding("truncate"),
        "sign": sign,
        "sgn": sign,
        "relu": relu,
        "silu": _floating_only(silu),
        "mish": _floating_only(mish),
        "hardsigmoid": _floating_only(hard_sigmoid),
        "hardswish": _floating_only(hard_swish),
        "square": lambda x: x * x,
        "positive": lambda x: x,
        "bitwise_not": _named("not"),
        "frac": _floating_only(lambda x: x - x.apply("truncate")),
    },
    1,
    result_dtype,
)
_register({"isnan": is_nan, "isinf": is_infinite, "logical_not": logical_not}, 1, operands_dtype)
rule(aten.round.default)(_plain_rule(_rounding("round"), 1, result_dtype))


# -- two operands -----------------------------------------------------------------------------------------------------

_ARITHMETIC = {
    "maximum": _named("maximum"),
    "minimum": _named("minimum"),
    "atan2": _named("atan2"),
    "hypot": _floating_only(_named("hypot")),
    "copysign": _named("copysign"),
    "bitwise_and": _named("and"),
    "bitwise_or": _named("or"),
    "bitwise_xor": _named("xor"),
}
_register(_ARITHMETIC, 2, result_dtype)


def _rule_leaving_out_nan(name: str) -> Callable[[Lowering], Lowered]:
    """Of 0 and -0 it is the first operand, as in C; of bfloat16, which eager compares itself, the second."""

    def apply(call: Lowering) -> Lowered:
        dtype = result_dtype(call)
        operands = call.arguments[::-1] if dtype is torch.bfloat16 else call.arguments
        return elementwise(call, _floating_only(_named(name)), dtype, tuple(operands))

    return apply


for _name in ("fmax", "fmin"):
    rule(getattr(aten, _name))(_rule_leaving_out_nan(_name))


@rule(aten.mul)
def multiply(call: Lowering) -> Lowered:
    return _with_wide_right(call, _named("multiply"), "unrounded" if call.device.type == "cuda" else "rounded")


def _with_wide_right(call: Lowering, formula: Formula, on_the_left: Numbers = "rounded") -> Lowered:
    """ATen's multiplications and divisions take a number on the right in the compute type; CUDA's multiplication one on the left too."""
    dtype = result_dtype(call)
    nest = call.nest(call.results[0].shape)
    left = promoted_element(call, nest, call.arguments[0], dtype, on_the_left)
    return call.finish(nest, formula(left, promoted_element(call, nest, call.arguments[1], dtype, "unrounded")))


_COMPARISONS = {
    "eq": _named("equal"),
    "ne": _named("not_equal"),
    "lt": _named("less"),
    "le": _named("less_equal"),
    "gt": _named("greater"),
    "ge": _named("greater_equal"),
}
_register(_COMPARISONS, 2, operands_dtype)


def _logical(name: str) -> Formula:
    return lambda x, y: x.cast(torch.bool).apply(name, y.cast(torch.bool))


def _rule_logical(name: str) -> Callable[[Lowering], Lowered]:
    def apply(call: Lowering) -> Lowered:
        nest = call.nest(call.results[0].shape)
        x, y = (call.raw_scalar(nest, v, nest.indices, torch.bool).cast(torch.bool) for v in call.arguments)
        return call.finish(nest, x.apply(name, y))

    return apply


for _name, _operation in {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}.items():
    rule(getattr(aten, _name).default)(_rule_logical(_operation))


def _is_number(value: Any, *numbers: float) -> bool:
    """Of a number that varies the answer is relied on."""
    return isinstance(value, (int, float, Size)) and not isinstance(value, bool) and value in numbers


def _scaled(x: Scalar, alpha: Any, call: Lowering, numbers: Numbers = "unrounded") -> Scalar:
    """alpha * x. Eager multiplies in the compute type, so alpha 1 is no multiplication."""
    if _is_number(alpha, 1) or alpha is True:
        return x
    dtype = result_dtype(call) if numbers == "rounded" else x.dtype
    refuse_overflow(dtype, alpha)
    if isinstance(alpha, ScalarInput):
        alpha = checked(call, alpha, result_dtype(call))
    return x * call.scalar(x.builder, alpha, (), dtype).cast(x.dtype)


def _sum_rule(call: Lowering, left: Any, right: Any, combine: str) -> Lowered | NotLowered:
    if set(call.keywords) - {"alpha"}:
        return NotLowered("called with options that have no loop form")
    alpha = call.operand(2, "alpha", 1)
    dtype = result_dtype(call)
    if dtype == torch.bool and combine != "add":
        return NotLowered("eager refuses it")
    numbers: Numbers = "unrounded" if call.device.type == "cuda" else "rounded"
    formula = lambda x, y: x.apply(combine, _scaled(y, alpha, call, numbers))  # noqa: E731
    return elementwise(call, formula, dtype, (left, right), numbers)


@rule(aten.add)
def add(call: Lowering) -> Lowered | NotLowered:
    return _sum_rule(call, call.arguments[0], call.arguments[1], "add")


@rule(aten.sub)
def subtract(call: Lowering) -> Lowered | NotLowered:
    return _sum_rule(call, call.arguments[0], call.arguments[1], "subtract")


@rule(aten.rsub)
def reverse_subtract(call: Lowering) -> Lowered | NotLowered:
    return (
        _sum_rule(call, call.arguments[1], call.arguments[0], "subtract")
        if is_constant(call.operand(2, "alpha", 1), 1)
        else NotLowered("a scaled reverse subtraction")
    )


@rule(aten.div)
def divide(call: Lowering) -> Lowered | NotLowered:
    mode = call.keywords.get("rounding_mode")
    dtype = result_dtype(call)
    operation = {None: "divide", "floor": "floor_divide", "trunc": "truncate_divide"}[mode]
    return _division(call, operation, dtype)


@rule(aten.floor_divide)
def floor_divide(call: Lowering) -> Lowered | NotLowered:
    return _division(call, "floor_divide", result_dtype(call))


@rule(aten.remainder)
def remainder(call: Lowering) -> Lowered | NotLowered:
    return _division(call, "remainder", result_dtype(call))


@rule(aten.fmod)
def c_remainder(call: Lowering) -> Lowered | NotLowered:
    return _division(call, "fmod", result_dtype(call))


def _greatest(dtype: torch.dtype) -> int:
    """A larger number may be zero as an element."""
    return 1 if dtype == torch.bool else torch.iinfo(dtype).max


def _division(call: Lowering, operation: str, dtype: torch.dtype) -> Lowered | NotLowered:
    divisor = call.arguments[1]
    if not dtype.is_floating_point and not (isinstance(divisor, (int, Size)) and 0 < divisor <= _greatest(dtype)):
        return NotLowered("integer division by what may be zero raises an error in eager")
    if dtype in (torch.float16, torch.bfloat16) and operation != "divide":
        return NotLowered("half-precision floor division rounds at each step in eager")
    if operation in _BY_INVERSE and call.device.type == "cuda" and dtype.is_floating_point and is_scalar_operand(call, divisor):
        return _by_inverse(call, _BY_INVERSE[operation])
    return _with_wide_right(call, _named(operation))


_BY_INVERSE: dict[str, Callable[[Scalar], Scalar]] = {"divide": lambda x: x, "truncate_divide": lambda x: x.apply("truncate")}


def _by_inverse(call: Lowering, rounded: Callable[[Scalar], Scalar]) -> Lowered:
    """What CUDA's kernels do with a number (`BinaryDivTrueKernel.cu`, `BinaryDivTruncKernel.cu`): a product with its inverse, which is
    another result than the quotient in the last place, and another integer where that is cut off (`41 / 41` is 0)."""
    dividend, divisor = call.arguments
    dtype, nest = result_dtype(call), call.nest(call.results[0].shape)
    left = promoted_element(call, nest, dividend, dtype)
    if isinstance(divisor, (bool, int, float)):
        inverse = left.like((torch.ones((), dtype=left.dtype) / torch.tensor(float(divisor), dtype=left.dtype)).item())
    else:
        inverse = left.like(1) / promoted_element(call, nest, divisor, dtype, "unrounded")
    return call.finish(nest, rounded(left * inverse))


@rule(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def power(call: Lowering) -> Lowered | NotLowered:
    base, exponent = call.arguments
    dtype = result_dtype(call)
    if isinstance(exponent, Size) and exponent.kind is int and dtype.is_floating_point and exponent >= 0:
        return elementwise(call, _power_of_any(dtype, call), dtype, (base, exponent))
    special = _power_formula(exponent, dtype, call)
    if special is not None:
        return elementwise(call, special, dtype, (base,))
    if not dtype.is_floating_point:
        return NotLowered("an integer power with a general exponent")
    return elementwise(call, _named("pow"), dtype, (base, exponent))


def _power_of_any(dtype: torch.dtype, call: Lowering) -> Formula:
    """Of an exponent that varies, and is not negative: eager's formulas where it is 2 or 3. One kernel is for all."""
    square = _square(dtype, call)
    return lambda x, e: e.equal(2).where(square(x), e.equal(3).where(square(x) * x, x.apply("pow", e)))


def _square(dtype: torch.dtype, call: Lowering) -> Formula:
    """In bf16, and on CUDA in f16, eager rounds after each step."""
    steps = dtype if dtype == torch.bfloat16 or call.device.type == "cuda" else None
    return lambda x: x * x if steps is None else (x * x).cast(steps).cast(x.dtype)


def _power_formula(exponent: Any, dtype: torch.dtype, call: Lowering) -> Formula | None:
    """The formulas that eager uses for common exponents."""
    square = _square(dtype, call)
    if _is_number(exponent, 1):
        return lambda x: x
    if _is_number(exponent, 2):
        return square
    if _is_number(exponent, 3):
        return lambda x: square(x) * x
    if not dtype.is_floating_point:
        return None
    if dtype == torch.float16 and call.device.type != "cuda":
        return None
    if _is_number(exponent, 0.5):
        return _named("square_root")
    if _is_number(exponent, -0.5):
        return _named("reciprocal_square_root")
    if _is_number(exponent, -1):
        return _named("reciprocal")
    if _is_number(exponent, -2):
        return lambda x: square(x).apply("reciprocal")
    return None


@rule(aten.__lshift__, aten.bitwise_left_shift, aten.__rshift__, aten.bitwise_right_shift)
def shift(call: Lowering) -> Lowered | NotLowered:
    amount = call.arguments[1]
    dtype = result_dtype(call)
    if (
        not isinstance(amount, int)
        or not 0 <= amount < dtype.itemsize * 8 - 1
        or not isinstance(call.arguments[0], TensorView)
    ):
        return NotLowered("a shift by an amount that is not a small constant")
    name = "shift_left" if "left" in str(call.operator) or "lshift" in str(call.operator) else "shift_right"
    return elementwise(call, _named(name), dtype, call.arguments[:2])


# -- several operands, options ------------------------------------------------------------------------------------------


@rule(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where(call: Lowering) -> Lowered | NotLowered:
    condition, yes, no = call.arguments
    nest = call.nest(call.results[0].shape)
    dtype = call.results[0].dtype
    test = call.raw_scalar(nest, condition, nest.indices, torch.bool).cast(torch.bool)
    a, b = (call.scalar(nest, value, nest.indices, dtype) for value in (yes, no))
    return call.finish(nest, test.where(a, b))


@rule(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(call: Lowering) -> Lowered:
    source, mask, value = call.arguments
    nest = call.nest(call.results[0].shape)
    dtype = call.results[0].dtype
    test = call.raw_scalar(nest, mask, nest.indices, torch.bool).cast(torch.bool)
    refuse_overflow(dtype, value)
    filling = call.scalar(nest, value, nest.indices, dtype)
    return call.finish(nest, test.where(filling, call.scalar(nest, source, nest.indices, dtype)))


@rule(aten.clone.default, aten.alias_copy.default, aten.contiguous.default)
def clone(call: Lowering) -> Lowered:
    nest = call.nest(call.results[0].shape)
    return call.finish(nest, call.scalar(nest, call.arguments[0], nest.indices, call.results[0].dtype))


@rule(aten._to_copy.default, aten.to.dtype)
def convert(call: Lowering) -> Lowered | NotLowered:
    source = call.arguments[0]
    device = call.keywords.get("device")
    if device is not None and torch.device(device).type != call.device.type:
        return NotLowered("a copy between devices")
    source_device = call.node.args[0].meta.get("device")
    if source_device is not None and torch.device(source_device) != call.device:
        return NotLowered("a copy between devices")
    wanted = call.results[0].dtype
    is_narrowed = source.dtype.is_floating_point and wanted in (torch.uint8, torch.int8, torch.int16)
    is_clamped = is_narrowed and _is_clamped(call.node.args[0], wanted)
    if is_narrowed and not is_clamped and call.device.type != "cuda":
        return NotLowered("a conversion of floats to narrow integers, which the library wraps in its own way")
    nest = call.nest(call.results[0].shape)
    value = call.raw_scalar(nest, source, nest.indices, source.dtype)
    if is_narrowed:  # a GPU wraps what 32 bits hold (none more than they can), bytes without a sign what 64 bits hold
        value = value.cast(torch.int64 if wanted is torch.uint8 and not is_clamped else torch.int32)
    return call.finish(nest, value.cast(wanted))


ROUNDINGS = frozenset((aten.round.default, aten.trunc.default, aten.floor.default, aten.ceil.default))


def _is_clamped(node: fx.Node, dtype: torch.dtype) -> bool:
    """Whether what a node gives lies within the integers of a type, or is no number (which is 0 then), so that nothing is wrapped."""
    while node.target in ROUNDINGS:
        node = node.args[0]
    bounds = node.args[1:3]
    limits = torch.iinfo(dtype)
    is_clamp = node.target is aten.clamp.default and len(bounds) == 2 and all(isinstance(bound, (int, float)) for bound in bounds)
    return is_clamp and limits.min <= min(bounds) and max(bounds) <= limits.max


@rule(aten.copy.default)
def copy(call: Lowering) -> Lowered:
    nest = call.nest(call.results[0].shape)
    source = call.arguments[1]
    return call.finish(nest, call.raw_scalar(nest, source, nest.indices, call.results[0].dtype))


@rule(aten.clamp.default, aten.clamp.Tensor, aten.clamp_min, aten.clamp_max, aten.hardtanh.default, aten.relu6.default)
def clamp(call: Lowering) -> Lowered:
    low, high = _clamp_limits(call)
    is_lone = (low is None) != (high is None)
    leaves_nan = is_lone and call.operator is aten.clamp.default and call.device.type == "cpu" and not _one_nan_counts()
    if leaves_nan:
        low, high = (None if _is_nan(limit) else limit for limit in (low, high))

    def formula(x: Scalar) -> Scalar:
        for limit, operation in ((low, "maximum"), (high, "minimum")):
            if limit is not None:
                bound = promoted_element(call, x.builder, limit, result_dtype(call))
                limited = _limited(operation, x, bound, limit)
                x = bound.equal(bound).where(limited, x) if leaves_nan and isinstance(limit, Size) else limited
        return x

    return elementwise(call, formula, result_dtype(call), call.arguments[:1])


@cache
def _one_nan_counts() -> bool:
    """Whether a lone limit that is NaN makes all elements NaN: torch before 2.13 leaves them as they are, on the CPU."""
    return bool(torch.ones(1).clamp(min=math.nan).isnan())


def _is_nan(limit: Any) -> bool:
    return isinstance(limit, float) and math.isnan(limit)


def _limited(operation: str, x: Scalar, bound: Scalar, limit: Any) -> Scalar:
    """Of 0 and -0 the second one stays: eager takes its operand for that where the limit is a number, else the limit."""
    return x.apply(operation, bound) if isinstance(limit, TensorView) else bound.apply(operation, x)


def _clamp_limits(call: Lowering) -> tuple[Any, Any]:
    name = call.operator.overloadpacket.__name__
    if name == "clamp_min":
        return call.arguments[1], None
    if name == "clamp_max":
        return None, call.arguments[1]
    if name == "relu6":
        return 0, 6
    defaults = (-1, 1) if name == "hardtanh" else (None, None)
    return call.operand(1, "min_val" if name == "hardtanh" else "min", defaults[0]), call.operand(
        2, "max_val" if name == "hardtanh" else "max", defaults[1]
    )


@rule(aten.gelu.default)
def gelu(call: Lowering) -> Lowered:
    if call.keywords.get("approximate", "none") == "tanh":
        return elementwise(call, _gelu_tanh, result_dtype(call), call.arguments[:1])
    return elementwise(
        call, lambda x: x * 0.5 * ((x * SQRT_HALF).apply("erf") + 1.0), result_dtype(call), call.arguments[:1]
    )


def _gelu_tanh(x: Scalar) -> Scalar:
    inner = (x + x * x * x * 0.044715) * SQRT_2_OVER_PI
    return x * 0.5 * (inner.apply("tanh") + 1.0)


@rule(aten.gelu_backward.default)
def gelu_backward(call: Lowering) -> Lowered:
    formula = _gelu_tanh_backward if call.keywords.get("approximate", "none") == "tanh" else _gelu_erf_backward
    return elementwise(call, formula, result_dtype(call), call.arguments[:2])


def _gelu_erf_backward(gradient: Scalar, x: Scalar) -> Scalar:
    distribution = ((x * SQRT_HALF).apply("erf") + 1.0) * 0.5
    density = (x * x * -0.5).apply("exp") * (1.0 / math.sqrt(2.0 * math.pi))
    return gradient * (distribution + x * density)


def _gelu_tanh_backward(gradient: Scalar, x: Scalar) -> Scalar:
    tangent = ((x + x * x * x * 0.044715) * SQRT_2_OVER_PI).apply("tanh")
    left, right = x * 0.5, tangent + 1.0
    inner = (x * x * (3 * 0.044715) + 1.0) * SQRT_2_OVER_PI
    return gradient * (right * 0.5 + left * (1.0 - tangent * tangent) * inner)


@rule(aten.silu_backward.default)
def silu_backward(call: Lowering) -> Lowered:
    def formula(gradient: Scalar, x: Scalar) -> Scalar:
        sigmoid = 1.0 / (1.0 + (-x).apply("exp"))
        return gradient * sigmoid * (1.0 + x * (1.0 - sigmoid))

    return elementwise(call, formula, result_dtype(call), call.arguments[:2])


@rule(aten.sigmoid_backward.default)
def sigmoid_backward(call: Lowering) -> Lowered:
    return elementwise(call, lambda g, y: g * (1.0 - y) * y, result_dtype(call), call.arguments[:2])


@rule(aten.tanh_backward.default)
def tanh_backward(call: Lowering) -> Lowered:
    return elementwise(call, lambda g, y: g * (1.0 - y * y), result_dtype(call), call.arguments[:2])


@rule(aten.threshold_backward.default)
def threshold_backward(call: Lowering) -> Lowered:
    gradient, x, threshold = call.arguments
    formula = lambda g, v: v.apply("less_equal", threshold).where(g.like(0), g)  # noqa: E731
    return elementwise(call, formula, result_dtype(call), (gradient, x))


@rule(aten.threshold.default)
def threshold(call: Lowering) -> Lowered:
    x, limit, value = call.arguments
    refuse_overflow(result_dtype(call), limit, value)
    return elementwise(call, lambda v: v.apply("less_equal", limit).where(v.like(value), v), result_dtype(call), (x,))


@rule(aten.leaky_relu.default)
def leaky_relu(call: Lowering) -> Lowered:
    slope = call.operand(1, "negative_slope", 0.01)
    return elementwise(call, lambda x: x.greater(0).where(x, x * slope), result_dtype(call), call.arguments[:1])


@rule(aten.leaky_relu_backward.default)
def leaky_relu_backward(call: Lowering) -> Lowered:
    gradient, x, slope, _ = call.arguments
    return elementwise(call, lambda g, v: v.greater(0).where(g, g * slope), result_dtype(call), (gradient, x))


@rule(aten.elu.default)
def elu(call: Lowering) -> Lowered:
    alpha, scale, input_scale = (call.operand(k + 1, n, 1) for k, n in enumerate(("alpha", "scale", "input_scale")))

    def formula(x: Scalar) -> Scalar:
        return x.greater(0).where(x * scale, (x * input_scale).apply("expm1") * (alpha * scale))

    return elementwise(call, formula, result_dtype(call), call.arguments[:1])


@rule(aten.softplus.default)
def softplus(call: Lowering) -> Lowered:
    beta, threshold_ = call.operand(1, "beta", 1), call.operand(2, "threshold", 20)
    formula = lambda x: softplus_formula(x, beta, threshold_)  # noqa: E731
    return elementwise(call, formula, result_dtype(call), call.arguments[:1])


@rule(aten.addcmul.default)
def addcmul(call: Lowering) -> Lowered | NotLowered:
    value = call.keywords.get("value", 1)
    return elementwise(call, lambda a, b, c: a + _scaled(b, value, call) * c, result_dtype(call), call.arguments[:3])


@rule(aten.addcdiv.default)
def addcdiv(call: Lowering) -> Lowered | NotLowered:
    value = call.keywords.get("value", 1)
    return elementwise(call, lambda a, b, c: a + _scaled(b, value, call) / c, result_dtype(call), call.arguments[:3])


@rule(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(call: Lowering) -> Lowered:
    def formula(start: Scalar, end: Scalar, weight: Scalar) -> Scalar:
        near = start + weight * (end - start)
        far = end - (end - start) * (1.0 - weight)
        return weight.apply("absolute").less(0.5).where(near, far)

    return elementwise(call, formula, result_dtype(call), call.arguments[:3], "unrounded")


@rule(aten.nan_to_num.default)
def nan_to_num(call: Lowering) -> Lowered | NotLowered:
    dtype = result_dtype(call)
    if dtype not in (torch.float32, torch.float64):
        return NotLowered("limits of a half-precision type")
    limits = torch.finfo(dtype)
    nan, high, low = (call.operand(k + 1, n) for k, n in enumerate(("nan", "posinf", "neginf")))

    def formula(x: Scalar) -> Scalar:
        above = x.equal(math.inf).where(x.like(limits.max if high is None else high), x)
        below = x.equal(-math.inf).where(x.like(limits.min if low is None else low), above)
        return x.apply("is_nan").where(x.like(nan or 0.0), below)

    return elementwise(call, formula, dtype, call.arguments[:1])
