// Functions of f32 lanes that are computed in f64, where f32 would lose more than the last place: 0.6 ulp and less. No f64 lanes are
// chosen by a condition: gcc takes vectors of two registers apart for that.
//: logarithm logarithm_of_sum
// Of 2^k (1 + f), with 1 + f between sqrt(1/2) and sqrt(2): k log 2 + 2 atanh(f / (2 + f)).
INLINE F64 logarithm(I64 k, F64 f) {
  F64 s = f / (f + 2.), z = s * s;
  F64 p = (((z * (1. / 11) + 1. / 9) * z + 1. / 7) * z + 1. / 5) * z + 1. / 3;
  return whole(k) * 0.69314718055994531 + (s + s * z * p) * 2.;
}
INLINE F64 logarithm(F64 x) {
  I64 b = (I64)x - 0x3fe6a09e667f3bcdl;
  return logarithm(b >> 52, (F64)((b & 0xfffffffffffffl) + 0x3fe6a09e667f3bcdl) - 1.);
}
// Of 1 + u.
INLINE F64 logarithm_of_sum(F64 u) {
  I64 k = ((I64)(u + 1.) - 0x3fe6a09e667f3bcdl) >> 52;
  F64 scale = power_of_two(-k);
  return logarithm(k, u * scale + (scale - 1.));
}
//: logarithm_in_base
// What rounding takes from the first product is known where products are fused, and f32 is enough.
INLINE F32 logarithm_in_base(F32 x, f32 unit, f32 unit_rest, f32 two, f32 two_rest) {
  if constexpr (FUSES) {
    M tiny = (M)(x < 1.17549435e-38f);
    F32 none = splat(F32{}, 0.f), down = select(tiny, splat(F32{}, -23.f), none);
    return where_positive(logarithm_in(select(tiny, x * 8388608.f, x), down, none, unit, unit_rest, two, two_rest), x);
  } else {
    return where_positive(TO(F32, logarithm(TO(F64, x)) * ((f64)unit + unit_rest)), x);
  }
}
//: log2_ / f32 F32
INLINE F32 log2_(F32 x) { return logarithm_in_base(x, 1.44269502f, 1.92596303e-8f, 1.f, 0.f); }
//: log10_ / f32 F32
INLINE F32 log10_(F32 x) { return logarithm_in_base(x, 0.434294492f, -1.010305e-8f, 0.301025390625f, 4.60503907e-6f); }
//: asinh_ / f32 F32
INLINE F32 asinh_(F32 x) {
  F32 a = absolute(x);
  F64 w = TO(F64, a), square = w * w;
  F32 y = TO(F32, logarithm_of_sum(w + square / (square_root(square + 1.) + 1.)));
  return copysign_(select((M)(a < __builtin_inff()), y, a), x);
}
//: acosh_ / f32 F32
INLINE F32 acosh_(F32 x) {
  F64 above = TO(F64, x) - 1.;
  F32 y = TO(F32, logarithm_of_sum(above + square_root(above * (above + 2.))));
  return select((M)(x < 1.f), splat(F32{}, __builtin_nanf("")), select((M)(x < __builtin_inff()), y, x));
}
//: atanh_ / f32 F32
INLINE F32 atanh_(F32 x) {
  F32 a = absolute(x);
  F64 w = TO(F64, a);
  F32 y = TO(F32, logarithm_of_sum((w + w) / (1. - w)) * .5);
  y = select((M)(a == 1.f), splat(F32{}, __builtin_inff()), y);
  return copysign_(select((M)!(a <= 1.f), splat(F32{}, __builtin_nanf("")), y), x);
}
//: Halves halves
// e^x = 2^n (even + 1 + odd): the even and odd parts of the series at x - n log 2.
struct Halves { I64 n; F64 even, odd; };
INLINE Halves halves(F64 x) {
  F64 shifted = x * 1.4426950408889634 + 6755399441055744., n = shifted - 6755399441055744.;
  F64 r = x - n * 0.69314718055994531, z = r * r;
  return {(I64)shifted, z * (((z * (1. / 40320) + 1. / 720) * z + 1. / 24) * z + .5), r + r * z * ((z * (1. / 5040) + 1. / 120) * z + 1. / 6)};
}
//: expm1_ / f32 F32
INLINE F32 expm1_(F32 x) {
  Halves h = halves(TO(F64, at_least(at_most(x, 90.f), -90.f)));
  F64 scale = power_of_two(h.n);
  return copysign_(TO(F32, (scale - 1.) + scale * (h.even + h.odd)), x);
}
//: sinh_ / f32 F32
INLINE F32 sinh_(F32 x) {
  Halves h = halves(TO(F64, at_least(at_most(x, 90.f), -90.f)));
  F64 up = power_of_two(h.n - 1), down = power_of_two(-h.n - 1);
  return copysign_(TO(F32, (up - down) * (h.even + 1.) + (up + down) * h.odd), x);
}
//: cosh_ / f32 F32
INLINE F32 cosh_(F32 x) {
  Halves h = halves(TO(F64, at_least(at_most(x, 90.f), -90.f)));
  F64 up = power_of_two(h.n - 1), down = power_of_two(-h.n - 1);
  return TO(F32, (up + down) * (h.even + 1.) + (up - down) * h.odd);
}
//: erfc_ / f32 F32
// e^(a^2) erfc(a) is smooth in (a - 3) / (a + 3).
INLINE F32 erfc_(F32 x) {
  F64 a = TO(F64, at_most(absolute(x), 10.1f)), t = (a - 3.) / (a + 3.);
  F64 p = ((((((((((t * 5.38313897299e-5 + 2.47223283499e-5) * t - 0.0005952161188) * t + 0.000718577727072) * t + 0.00426989708515) * t
    - 0.0243949307425) * t + 0.0716656165727) * t - 0.150115709318) * t + 0.245603814482) * t - 0.326233566208) * t + 0.179001151107);
  Halves h = halves(-a * a);
  F64 sign = TO(F64, copysign_(splat(F32{}, 1.f), x));  // erfc(-a) is 2 - erfc(a)
  return TO(F32, (1. - sign) + sign * (power_of_two(h.n) * (h.even + h.odd + 1.) * p));
}
//: tan_ / f32 F32
INLINE F32 tan_(F32 x) {
  F64 wide = TO(F64, x), shifted = wide * 0.63661977236758134 + 6755399441055744., turns = shifted - 6755399441055744.;
  F64 r = (wide - turns * 1.57079632673412561417) - turns * 6.07710050650619224932e-11, z = r * r;
  F64 s = r + r * z * (((z * (1. / 362880) - 1. / 5040) * z + 1. / 120) * z - 1. / 6);
  F64 c = ((((z * (-1. / 3628800) + 1. / 40320) * z - 1. / 720) * z + 1. / 24) * z - .5) * z + 1.;
  I64 odd = -((I64)shifted & 1), changed = ((I64)s ^ (I64)c) & odd;
  F64 above = (F64)((I64)s ^ changed), below = (F64)((I64)c ^ changed);
  F32 y = TO(F32, (F64)((I64)above ^ (odd << 63)) / below);
  return where_near(select((M)(x == 0.f), x, y), x, [](f32 x) { return (f32)tan(x); });
}
//: pow_ power_of
// `size` is x^y by absolute values; the rest is what has no logarithm, signs, and numbers that are no numbers.
#define POWER_OF(V, T, TRUTH, LIBRARY) \
  INLINE V power_of(V x, V y, V size) { \
    V a = absolute(x), none = splat(V{}, (T)0), infinite = splat(V{}, (T)__builtin_inf()), half = y * (T).5; \
    V r = a == (T)0 ? (y < (T)0 ? infinite : none) : (a == (T)__builtin_inf() ? (y < (T)0 ? none : infinite) : size); \
    TRUTH is_whole = trunc_(y) == y, is_odd = is_whole & (trunc_(half) != half); \
    r = is_odd ? copysign_(r, x) : r; \
    r = (x < (T)0) & ~is_whole & (a < (T)__builtin_inf()) ? splat(V{}, (T)__builtin_nan("")) : r; \
    r = x + y == x + y ? r : x + y; \
    r = (y == (T)0) | (x == (T)1) ? splat(V{}, (T)1) : r; \
    M rare = compared(absolute(y) == (T)__builtin_inf()); \
    if (__builtin_expect(any_lane(rare), 0)) for (int k = 0; k < N; k++) if (rare[k]) r[k] = LIBRARY(x[k], y[k]); \
    return r; \
  }
//: pow_ / f32 F32
POWER_OF(F32, f32, I32, powf)
INLINE F32 pow_(F32 x, F32 y) {
  F64 exponent = logarithm(TO(F64, absolute(x))) * TO(F64, y);
  Halves h = halves(exponent);
  F32 size = TO(F32, exponent), r = TO(F32, power_of_two(h.n) * (h.even + h.odd + 1.));
  return power_of(x, y, size > 89.f ? splat(F32{}, __builtin_inff()) : (size < -104.f ? F32{} : r));
}
//: pow_ / f64 F64
POWER_OF(F64, f64, I64, pow)
// e^(y log x), the logarithm in two numbers: of 2^k (1 + f) it is k log 2 + 2 s + 2 / 3 s^3 + ..., with s = f / (2 + f).
INLINE F64 pow_(F64 x, F64 y) {
  if constexpr (!FUSES_F64) {
    F64 r;
    for (int k = 0; k < N; k++) r[k] = pow(x[k], y[k]);
    return r;
  }
  F64 k, f = fraction_of_any(absolute(x), k);
  F64 u = f + 2., s = f / u, s_rest = (fused(-s, u, f) - s * (f - (u - 2.))) / u;
  F64 z = s * s, z_rest = fused(s, s, -z) + (s + s) * s_rest;
  F64 cube = s * z, cube_rest = fused(s, z, -cube) + (s * z_rest + s_rest * z);
  F64 two_thirds = splat(F64{}, 0.66666666666666663), third = cube * two_thirds;
  F64 third_rest = fused(cube, two_thirds, -third) + (cube_rest * two_thirds + cube * 3.7007434154171886e-17);
  F64 p = splat(F64{}, 0.11723178623876518);
  p = fused(p, z, splat(F64{}, 0.11706236339491206));
  p = fused(p, z, splat(F64{}, 0.1333480469384731));
  p = fused(p, z, splat(F64{}, 0.1538459496251843));
  p = fused(p, z, splat(F64{}, 0.18181818335392802));
  p = fused(p, z, splat(F64{}, 0.22222222221655885));
  p = fused(p, z, splat(F64{}, 0.28571428571429364));
  p = fused(p, z, splat(F64{}, 0.4));
  F64 twos = k * 0.69314718036912382, two_s = s + s, first = twos + two_s, second = first + third;
  F64 low = (s_rest + s_rest) + third_rest + k * 1.9082149292705877e-10 + cube * z * p;
  low = ((twos - first) + two_s) + ((first - second) + third) + low;
  F64 log = second + low, log_rest = (second - log) + low;
  F64 size = y * log, size_rest = fused(y, log, -size) + y * log_rest, r;
  I64 n, is_large = size > 710., is_nothing = size < -746.;
  F64 curve = part_of_exp(is_large | is_nothing ? F64{} : size, n, r);
  F64 rest = is_large | is_nothing ? F64{} : size_rest;
  r = times_two_to((r + (curve + rest * (r + curve + 1.))) + 1., n);
  return power_of(x, y, is_large ? splat(F64{}, __builtin_inf()) : (is_nothing ? F64{} : r));
}
