// Functions of f64 lanes: exp 0.7 ulp, log, log1p, sine and cosine 0.9, erf and exp2 1.1, expm1 1.4, log2 and log10 1.8, the rest 2 to 2.4.
// The polynomials are Chebyshev fits made for this file; what is rounded first is added last, with what rounding took from it.
//: power_of_two whole / f64 F64
INLINE F64 power_of_two(I64 n) { return (F64)((n << 52) + 0x3ff0000000000000l); }
INLINE F64 whole(I64 n) { return (F64)(n + 0x4338000000000000l) - 6755399441055744.; }
//: times_two_to / f64 F64
// In two steps: the power itself may be out of range where the product is not.
INLINE F64 times_two_to(F64 y, I64 k) {
  I64 half = k >> 1;
  return y * power_of_two(half) * power_of_two(k - half);
}
//: curve_of_exp part_of_exp / f64 F64
// e^r - 1 - r, for r between -log(2) / 2 and log(2) / 2.
INLINE F64 curve_of_exp(F64 r) {
  F64 p = splat(F64{}, 2.0914686968086876e-09);
  p = fused(p, r, splat(F64{}, 2.5105217004720745e-08));
  p = fused(p, r, splat(F64{}, 2.75572736431103e-07));
  p = fused(p, r, splat(F64{}, 2.7557255400206422e-06));
  p = fused(p, r, splat(F64{}, 2.4801587325547743e-05));
  p = fused(p, r, splat(F64{}, 0.00019841269874820627));
  p = fused(p, r, splat(F64{}, 0.0013888888888883748));
  p = fused(p, r, splat(F64{}, 0.008333333333326136));
  p = fused(p, r, splat(F64{}, 0.04166666666666667));
  p = fused(p, r, splat(F64{}, 0.1666666666666667));
  p = fused(p, r, splat(F64{}, .5));
  return p * (r * r);
}
// The same, with t = k log 2 + r.
INLINE F64 part_of_exp(F64 t, I64& k, F64& r) {
  F64 shifted = t * 1.4426950408889634 + 6755399441055744., n = shifted - 6755399441055744.;
  k = (I64)shifted - 0x4338000000000000l;
  r = fused(n, splat(F64{}, -1.9082149292705877e-10), fused(n, splat(F64{}, -0.69314718036912382), t));
  return curve_of_exp(r);
}
//: exp_ / f64 F64
INLINE F64 exp_(F64 x) {
  I64 k, is_nothing = x < -745.14;  // not left to underflow, which takes the processor a hundred cycles
  F64 t = is_nothing ? F64{} : x, r;
  F64 curve = part_of_exp(t > 710. ? splat(F64{}, 710.) : t, k, r), y = r + 1.;
  y = y + (((1. - y) + r) + curve);
  return is_nothing ? F64{} : times_two_to(y, k);
}
//: exp2_ / f64 F64
INLINE F64 exp2_(F64 x) {
  I64 is_nothing = x < -1075.;
  F64 t = is_nothing ? F64{} : x;
  t = t > 1024. ? splat(F64{}, 1024.) : t;
  F64 shifted = t + 6755399441055744., n = shifted - 6755399441055744., r = (t - n) * 0.69314718055994531, y = (r + curve_of_exp(r)) + 1.;
  return is_nothing ? F64{} : times_two_to(y, (I64)shifted - 0x4338000000000000l);
}
//: expm1_ / f64 F64
INLINE F64 expm1_(F64 x) {
  F64 t = x < -40. ? splat(F64{}, -40.) : x, r;
  I64 k;
  F64 curve = part_of_exp(t > 710. ? splat(F64{}, 710.) : t, k, r);
  F64 more = 1. - power_of_two(k > 64 ? (I64){} - 64 : -k);
  return x == 0. ? x : times_two_to(k > 0 ? (more + r) + curve : more + (r + curve), k);
}
//: tanh_ / f64 F64
// With e = e^(-2 |x|) - 1: -e / (e + 2), which loses nothing near 0, and 1 - 2 (e + 1) / (e + 2), which loses nothing near 1.
INLINE F64 tanh_(F64 x) {
  F64 a = absolute(x);
  I64 k, is_small = a < .55;
  F64 r, curve = part_of_exp((a > 22. ? splat(F64{}, 22.) : a) * -2., k, r), scale = power_of_two(k);
  F64 some = ((1. - power_of_two(-k)) + (r + curve)) * scale, all = ((r + curve) + 1.) * scale;
  F64 y = (is_small ? -some : all * -2.) / ((is_small ? some + 1. : all) + 1.);
  return copysign_(is_small ? y : y + 1., x);
}
//: hyperbolic / f64 F64
// The cosine, with `sign` 1, or the sine, with -1, of a number that is not below 0: (e^a + sign e^-a) / 2.
INLINE F64 hyperbolic(F64 a, f64 sign) {
  I64 k;
  F64 r, curve = part_of_exp(a > 712. ? splat(F64{}, 712.) : a, k, r), m = r + curve, q = power_of_two((k > 60 ? (I64){} + 60 : k) * -2) * sign;
  return times_two_to((1. + q) + (m - q * (m / (m + 1.))), k - 1);
}
//: sinh_ / f64 F64
INLINE F64 sinh_(F64 x) { return copysign_(hyperbolic(absolute(x), -1.), x); }
//: cosh_ / f64 F64
INLINE F64 cosh_(F64 x) { return hyperbolic(absolute(x), 1.); }
//: sigmoid / f64 F64
INLINE F64 sigmoid(F64 x) { return 1. / (1. + exp_(-x)); }
//: fraction_of fraction_of_any / f64 F64
// f, where x is 2^k (1 + f), with 1 + f between sqrt(1/2) and sqrt(2).
INLINE F64 fraction_of(F64 x, F64& k) {
  I64 b = (I64)x - 0x3fe6a09e667f3bcdl;
  k = whole(b >> 52);
  return (F64)((b & 0xfffffffffffffl) + 0x3fe6a09e667f3bcdl) - 1.;
}
// Of what may be too small for all its bits, too.
INLINE F64 fraction_of_any(F64 x, F64& k) {
  I64 is_tiny = x < 2.2250738585072014e-308;
  F64 f = fraction_of(is_tiny ? x * 18014398509481984. : x, k);
  k = is_tiny ? k - 54. : k;
  return f;
}
//: part_of_logarithm / f64 F64
// f - log(1 + f).
INLINE F64 part_of_logarithm(F64 f) {
  F64 s = f / (f + 2.), z = s * s, half = f * f * .5;
  F64 p = splat(F64{}, 0.14616585424888623);
  p = fused(p, z, splat(F64{}, 0.15331710618210773));
  p = fused(p, z, splat(F64{}, 0.18182889455674947));
  p = fused(p, z, splat(F64{}, 0.22222211130259878));
  p = fused(p, z, splat(F64{}, 0.2857142862600327));
  p = fused(p, z, splat(F64{}, 0.39999999999899444));
  p = fused(p, z, splat(F64{}, 0.666666666666667));
  return half - s * fused(p, z, half);
}
//: log_of_positive / f64 F64
// y is the logarithm of x, but where x has none or it is infinite.
INLINE F64 log_of_positive(F64 y, F64 x) {
  y = x == 0. ? splat(F64{}, -__builtin_inf()) : y;
  y = x == __builtin_inf() ? x : y;
  return x >= 0. ? y : splat(F64{}, __builtin_nan(""));
}
//: logarithm_in_base / f64 F64
// log x / log of the base, of which 1 / log(base) is `unit` and log(2) / log(base) is `two` and `two_rest`.
INLINE F64 logarithm_in_base(F64 x, f64 unit, f64 two, f64 two_rest) {
  F64 k, f = fraction_of_any(x, k), part = part_of_logarithm(f);
  return log_of_positive(k * two + ((f - (part - k * (two_rest / unit))) * unit), x);
}
//: log_ / f64 F64
INLINE F64 log_(F64 x) { return logarithm_in_base(x, 1., 0.69314718036912382, 1.9082149292705877e-10); }
//: log2_ / f64 F64
INLINE F64 log2_(F64 x) { return logarithm_in_base(x, 1.4426950408889634, 1., 0.); }
//: log10_ / f64 F64
INLINE F64 log10_(F64 x) { return logarithm_in_base(x, 0.4342944819032518, 0.3010299956640665, -8.532344317057107e-14); }
//: log1p_ / f64 F64
// What rounding takes from 1 + x comes in at the end.
INLINE F64 log1p_(F64 x) {
  F64 u = x + 1., k, f = fraction_of(u, k), part = part_of_logarithm(f), rest = k * 1.9082149292705877e-10 + (x - (u - 1.)) / u;
  return copysign_(log_of_positive(k * 0.69314718036912382 + (f - (part - rest)), u), x);
}
//: atanh_ / f64 F64
INLINE F64 atanh_(F64 x) {
  F64 a = absolute(x);
  return copysign_(log1p_((a + a) / (1. - a)) * .5, x);
}
//: asinh_ / f64 F64
// Of a large number the logarithm of twice it.
INLINE F64 asinh_(F64 x) {
  F64 a = absolute(x), square = a * a, y = log1p_(a > 1e9 ? a : a + square / (square_root(square + 1.) + 1.));
  return copysign_(a > 1e9 ? y + 0.69314718055994531 : y, x);
}
//: acosh_ / f64 F64
INLINE F64 acosh_(F64 x) {
  F64 above = x - 1., y = log1p_(x > 1e9 ? above : above + square_root(above * (above + 2.)));
  y = x > 1e9 ? y + 0.69314718055994531 : y;
  return x < 1. ? splat(F64{}, __builtin_nan("")) : y;
}
//: erf_ / f64 F64
INLINE F64 erf_(F64 x) {
  F64 a = absolute(x), z = a * a;
  F64 p = splat(F64{}, 5.957176147748911e-11);
  p = fused(p, z, splat(F64{}, -1.1372848856791674e-09));
  p = fused(p, z, splat(F64{}, 1.4659775274047436e-08));
  p = fused(p, z, splat(F64{}, -1.6350312701054695e-07));
  p = fused(p, z, splat(F64{}, 1.6461000484121368e-06));
  p = fused(p, z, splat(F64{}, -1.4925595266831182e-05));
  p = fused(p, z, splat(F64{}, 0.0001205533111164271));
  p = fused(p, z, splat(F64{}, -0.000854832698083379));
  p = fused(p, z, splat(F64{}, 0.0052239776248180145));
  p = fused(p, z, splat(F64{}, -0.026866170645076792));
  p = fused(p, z, splat(F64{}, 0.11283791670954879));
  p = fused(p, z, splat(F64{}, -0.3761263890318375));
  F64 small = fused(a, fused(p, z, splat(F64{}, 0.12837916709551257)), a);
  // 1 - e^(-a^2) q: all of it from 6 on.
  F64 c = a > 6. ? splat(F64{}, 6.) : a, t = (c - 3.) / (c + 3.);
  F64 q = splat(F64{}, 3.381355142042904e-09);
  q = fused(q, t, splat(F64{}, 1.2755818949624478e-06));
  q = fused(q, t, splat(F64{}, 2.0135111426447427e-06));
  q = fused(q, t, splat(F64{}, -8.00978093907608e-06));
  q = fused(q, t, splat(F64{}, -1.2845780030775907e-05));
  q = fused(q, t, splat(F64{}, 6.406279226046039e-05));
  q = fused(q, t, splat(F64{}, 4.525434558991009e-05));
  q = fused(q, t, splat(F64{}, -0.0005970624964924544));
  q = fused(q, t, splat(F64{}, 0.0007077464666941425));
  q = fused(q, t, splat(F64{}, 0.004269136356961225));
  q = fused(q, t, splat(F64{}, -0.024392499318915004));
  q = fused(q, t, splat(F64{}, 0.07166583719747308));
  q = fused(q, t, splat(F64{}, -0.15011593650077898));
  q = fused(q, t, splat(F64{}, 0.24560380171233487));
  q = fused(q, t, splat(F64{}, -0.3262335600430372));
  q = fused(q, t, splat(F64{}, 0.17900115118138996));
  return copysign_(a < 1. ? small : 1. - exp_(c * -c) * q, x);
}
//: sine_and_cosine where_near / f64 F64
// Of what is left of x without quarters of a turn: their number. These, fewer than 2^17, are taken off in steps of which none loses anything.
INLINE I64 sine_and_cosine(F64 x, F64& s, F64& c) {
  F64 shifted = x * 0.63661977236758134 + 6755399441055744., n = shifted - 6755399441055744.;
  F64 near = x - n * 1.5707963267341256, step = n * 6.077100506303966e-11, nearer = near - step;
  F64 last = n * 2.0222662487959506e-21, r = nearer - last;
  F64 rest = (((near - nearer) - step) + ((nearer - r) - last)), z = r * r, half = z * .5, one = 1. - half;
  s = splat(F64{}, 1.5917988979397435e-10);
  s = fused(s, z, splat(F64{}, -2.5051129896450185e-08));
  s = fused(s, z, splat(F64{}, 2.7557316093198404e-06));
  s = fused(s, z, splat(F64{}, -0.00019841269836740532));
  s = fused(s, z, splat(F64{}, 0.008333333333330936));
  s = fused(s, z, splat(F64{}, -0.16666666666666666));
  s = r + (s * (z * r) + rest * one);
  c = splat(F64{}, -1.138254464534925e-11);
  c = fused(c, z, splat(F64{}, 2.087614504941318e-09));
  c = fused(c, z, splat(F64{}, -2.755731726587808e-07));
  c = fused(c, z, splat(F64{}, 2.48015872987544e-05));
  c = fused(c, z, splat(F64{}, -0.0013888888888887389));
  c = fused(c, z, splat(F64{}, 0.041666666666666664));
  c = one + (((1. - one) - half) + (c * (z * z) - r * rest));
  return (I64)shifted - 0x4338000000000000l;
}
// Of x, and `quarter` of a turn on.
INLINE F64 sine(F64 x, i64 quarter) {
  F64 s, c;
  I64 q = sine_and_cosine(x, s, c) + quarter;
  F64 y = (q & 1) != 0 ? c : s;
  return (F64)((I64)y ^ ((q & 2) << 62));
}
// The lanes that are too far for that, or no numbers, by the C library.
INLINE F64 where_near(F64 y, F64 x, f64 (*library)(f64)) {
  M far = compared((I64)!(absolute(x) < 1e5));
  if (__builtin_expect(any_lane(far), 0)) for (int k = 0; k < N; k++) if (far[k]) y[k] = library(x[k]);
  return y;
}
//: sin_ / f64 F64
INLINE F64 sin_(F64 x) { return where_near(x == 0. ? x : sine(x, 0), x, sin); }
//: cos_ / f64 F64
INLINE F64 cos_(F64 x) { return where_near(sine(x, 1), x, cos); }
//: tan_ / f64 F64
INLINE F64 tan_(F64 x) {
  F64 s, c;
  I64 is_odd = (sine_and_cosine(x, s, c) & 1) != 0;
  return where_near(x == 0. ? x : (is_odd ? -c : s) / (is_odd ? s : c), x, tan);
}
