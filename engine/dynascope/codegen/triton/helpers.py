"""Small Triton functions that kernels call; a kernel's text holds the ones it uses.

Each is plain text, so that a kernel can be read, kept and run without Dynascope.
"""

from __future__ import annotations

HELPERS: dict[str, str] = {
    "larger": '''
@triton.jit
def larger(a, b):
    """The greater one; NaN if either is."""
    return tl.where((a > b) | (a != a), a, b)
''',
    "larger_single": '''
@triton.jit
def larger_single(a, b):
    """The greater one; NaN if either is. One instruction on f32."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "smaller_single": '''
@triton.jit
def smaller_single(a, b):
    """The lesser one; NaN if either is. One instruction on f32."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "smaller": '''
@triton.jit
def smaller(a, b):
    """The lesser one; NaN if either is."""
    return tl.where((a < b) | (a != a), a, b)
''',
    "largest_so_far": '''
@triton.jit
def largest_so_far(before, now):
    """The greater one, of equal ones (zeros of either sign) the later; NaN if either is."""
    return tl.where((now >= before) | (now != now), now, before)
''',
    "smallest_so_far": '''
@triton.jit
def smallest_so_far(before, now):
    """The lesser one, of equal ones (zeros of either sign) the later; NaN if either is."""
    return tl.where((now <= before) | (now != now), now, before)
''',
    "quotient": '''
@triton.jit
def quotient(a, b):
    """f32 division without a branch: by an inverse, put right once by what is left over. Small and large divisors are scaled first, so
    that no inverse leaves the range. Where what is left over says nothing (a zero, an infinity), the product is right as it is."""
    size = tl.abs(b)
    large = tl.where(size > 1.8446744073709552e19, 5.421010862427522e-20, 1.0)
    scale = tl.where(size < 5.421010862427522e-20, 1.8446744073709552e19, large)
    a, b = a * scale, b * scale
    inverse = 1.0 / b
    first = a * inverse
    second = tl.fma(tl.fma(-first, b, a), inverse, first)
    return tl.where(tl.abs(second) <= 3.4028234663852886e38, second, first)
''',
    "inverse_of_more": '''
@triton.jit
def inverse_of_more(a):
    """1 / a in f32, of 1 or more; of infinity what is left over says nothing."""
    first = 1.0 / a
    second = tl.fma(tl.fma(-first, a, 1.0), first, first)
    return tl.where(a < float("inf"), second, first)
''',
    "product": """
@triton.jit
def product(a, b):
    return a * b
""",
    "first_largest": '''
@triton.jit
def first_largest(a, i, b, j):
    """The greater value with its index; a NaN is greatest, and of equals the first wins."""
    a_nan = a != a
    b_nan = b != b
    equal = (a == b) | (a_nan & b_nan)
    keep = (a > b) | (a_nan & (b_nan == 0)) | (equal & (i < j))
    return tl.where(keep, a, b), tl.where(keep, i, j)
''',
    "first_smallest": '''
@triton.jit
def first_smallest(a, i, b, j):
    """The lesser value with its index; a NaN is least, and of equals the first wins."""
    a_nan = a != a
    b_nan = b != b
    equal = (a == b) | (a_nan & b_nan)
    keep = (a < b) | (a_nan & (b_nan == 0)) | (equal & (i < j))
    return tl.where(keep, a, b), tl.where(keep, i, j)
''',
    "turn": '''
@triton.jit
def turn(started, programs):
    """How many programs started before this one. The last one sets their number back."""
    number = tl.atomic_add(started, 1, sem="relaxed")
    if number == programs - 1:
        tl.store(started, 0)
    return number
''',
    "meet": '''
@triton.jit
def meet(counter, wanted):
    """Wait until so many have come here; what they stored before can be read then."""
    tl.debug_barrier()
    come = tl.atomic_add(counter, 1, sem="acq_rel") + 1
    while come < wanted:
        come = tl.atomic_add(counter, 0, sem="acquire")
    tl.debug_barrier()
''',
    "leaves_last": '''
@triton.jit
def leaves_last(counter, wanted):
    """Whether this program is the last of so many that count; what the others did has happened then."""
    tl.debug_barrier()
    return tl.atomic_add(counter, 1, sem="acq_rel") == wanted - 1
''',
    "narrow": '''
@triton.jit
def narrow(a):
    """As int32, what is out of its range at its ends."""
    return tl.minimum(tl.maximum(a, -2147483648), 2147483647).to(tl.int32)
''',
    "floor_divide": '''
@triton.jit
def floor_divide(a, b):
    """Integer division rounded down, as Python's."""
    quotient = a // b
    return tl.where((quotient * b != a) & ((a < 0) != (b < 0)), quotient - 1, quotient)
''',
    "modulo": '''
@triton.jit
def modulo(a, b):
    """The integer remainder with the divisor's sign, as Python's."""
    rest = a - (a // b) * b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
''',
    "float_modulo": '''
@triton.jit
def float_modulo(a, b):
    """The remainder with the divisor's sign, as eager's."""
    rest = libdevice.fmod(a, b)
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
''',
    "float_floor_divide": '''
@triton.jit
def float_floor_divide(a, b):
    """Division rounded down, step by step as eager does it."""
    rest = libdevice.fmod(a, b)
    quotient = (a - rest) / b
    quotient = tl.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient)
    low = libdevice.floor(quotient)
    rounded = tl.where(quotient - low > 0.5, low + 1, low)
    exact = a / b
    return tl.where(b == 0, exact, tl.where(quotient == 0, libdevice.copysign(quotient * 0, exact), rounded))
''',
    "random_unit": '''
@triton.jit
def random_unit(seed, offset, index):
    """f32 in [0, 1): Philox 4x32-10 with key `seed` and counter (index >> 2, offset), word index & 3, its upper 24 bits."""
    block = index >> 2
    stream = tl.zeros_like(index) + offset
    a, b, c, d = tl.philox(
        seed, block.to(tl.uint32), (block >> 32).to(tl.uint32), stream.to(tl.uint32), (stream >> 32).to(tl.uint32)
    )
    place = index & 3
    word = tl.where(place < 2, tl.where(place == 0, a, b), tl.where(place == 2, c, d))
    return (word >> 8).to(tl.float32) * 5.9604644775390625e-08
''',
    "random_run": '''
@triton.jit
def random_run(seed, offset, first, COUNT: tl.constexpr):
    """`random_unit` of COUNT neighbours from `first`, a multiple of four, on: each Philox call serves four of them."""
    block = first // 4 + tl.arange(0, COUNT // 4).to(tl.int64)
    stream = tl.zeros_like(block) + offset
    a, b, c, d = tl.philox(
        seed, block.to(tl.uint32), (block >> 32).to(tl.uint32), stream.to(tl.uint32), (stream >> 32).to(tl.uint32)
    )
    word = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), [COUNT])
    return (word >> 8).to(tl.float32) * 5.9604644775390625e-08
''',
}


def helper_texts(used: frozenset[str]) -> str:
    """The functions named, in the order of the table."""
    return "\n".join(text for name, text in HELPERS.items() if name in used)
