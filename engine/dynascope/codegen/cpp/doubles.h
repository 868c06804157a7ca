// Functions of f64 lanes: exp 1 ulp, expm1 1.4, log and log1p 0.9, tanh 2.2, erf 1.2, sine and cosine 0.9. The polynomials are Chebyshev
// fits made for this file; what is rounded first is added last, with what rounding took from it.
//: power_of_two whole / f64 F64
INLINE F64 power_of_two(I64 n) { return (F64)((n << 52) + 0x3ff0000000000000l); }
INLINE F64 whole(I64 n) { return (F64)(n + 0x4338000000000000l) - 6755399441055744.; }
//: curve_of_exp / f64 F64
// e^r - 1 - r, with t = k log 2 + r and r between -log(2) / 2 and log(2) / 2.
INLINE F64 curve_of_exp(F64 t, I64& k, F64& r) {
  F64 shifted = t * 1.4426950408889634 + 6755399441055744., n = shifted - 6755399441055744.;
  k = (I64)shifted - 0x4338000000000000l;
  r = (t - n * 0.69314718036912382) - n * 1.9082149292705877e-10;
  F64 p = splat(F64{}, 2.0914686968086876e-09);
  p = p * r + 2.5105217004720745e-08;
  p = p * r + 2.75572736431103e-07;
  p = p * r + 2.7557255400206422e-06;
  p = p * r + 2.4801587325547743e-05;
  p = p * r + 0.00019841269874820627;
  p = p * r + 0.0013888888888883748;
  p = p * r + 0.008333333333326136;
  p = p * r + 0.04166666666666667;
  p = p * r + 0.1666666666666667;
  return (p * r + .5) * (r * r);
}
//: exp_ / f64 F64
INLINE F64 exp_(F64 x) {
  I64 k, is_nothing = x < -745.14;  // not left to underflow, which takes the processor a hundred cycles
  F64 t = is_nothing ? F64{} : x, r;
  F64 curve = curve_of_exp(t > 710. ? splat(F64{}, 710.) : t, k, r), y = (r + curve) + 1.;
  I64 half = k >> 1;
  y = y * power_of_two(half) * power_of_two(k - half);
  return is_nothing ? F64{} : y;
}
//: expm1_ / f64 F64
INLINE F64 expm1_(F64 x) {
  F64 t = x < -40. ? splat(F64{}, -40.) : x, r;
  I64 k;
  F64 curve = curve_of_exp(t > 710. ? splat(F64{}, 710.) : t, k, r);
  I64 half = k >> 1;
  F64 more = 1. - power_of_two(k > 64 ? (I64){} - 64 : -k);
  F64 y = (k > 0 ? (more + r) + curve : more + (r + curve)) * power_of_two(half) * power_of_two(k - half);
  return x == 0. ? x : y;
}
//: tanh_ / f64 F64
// With e = e^(-2 |x|) - 1: -e / (e + 2), which loses nothing near 0, and 1 - 2 (e + 1) / (e + 2), which loses nothing near 1.
INLINE F64 tanh_(F64 x) {
  F64 a = absolute(x);
  I64 k, is_small = a < .55;
  F64 r, curve = curve_of_exp((a > 22. ? splat(F64{}, 22.) : a) * -2., k, r), scale = power_of_two(k);
  F64 some = ((1. - power_of_two(-k)) + (r + curve)) * scale, all = ((r + curve) + 1.) * scale;
  F64 y = (is_small ? -some : all * -2.) / ((is_small ? some + 1. : all) + 1.);
  return copysign_(is_small ? y : y + 1., x);
}
//: sigmoid / f64 F64
INLINE F64 sigmoid(F64 x) { return 1. / (1. + exp_(-x)); }
//: logarithm_and / f64 F64
// log x + down log 2 + rest.
INLINE F64 logarithm_and(F64 x, F64 down, F64 rest) {
  I64 b = (I64)x - 0x3fe6a09e667f3bcdl;
  F64 k = whole(b >> 52) + down, f = (F64)((b & 0xfffffffffffffl) + 0x3fe6a09e667f3bcdl) - 1.;
  F64 s = f / (f + 2.), z = s * s, half = f * f * .5;
  F64 p = splat(F64{}, 0.14616585424888623);
  p = p * z + 0.15331710618210773;
  p = p * z + 0.18182889455674947;
  p = p * z + 0.22222211130259878;
  p = p * z + 0.2857142862600327;
  p = p * z + 0.39999999999899444;
  p = (p * z + 0.666666666666667) * z;
  return k * 0.69314718036912382 - ((half - (s * (half + p) + (k * 1.9082149292705877e-10 + rest))) - f);
}
//: log_of_positive / f64 F64
// y is the logarithm of x, but where x has none or it is infinite.
INLINE F64 log_of_positive(F64 y, F64 x) {
  y = x == 0. ? splat(F64{}, -__builtin_inf()) : y;
  y = x == __builtin_inf() ? x : y;
  return x >= 0. ? y : splat(F64{}, __builtin_nan(""));
}
//: log_ / f64 F64
INLINE F64 log_(F64 x) {
  I64 is_tiny = x < 2.2250738585072014e-308;
  return log_of_positive(logarithm_and(is_tiny ? x * 18014398509481984. : x, is_tiny ? splat(F64{}, -54.) : F64{}, F64{}), x);
}
//: log1p_ / f64 F64
INLINE F64 log1p_(F64 x) {
  F64 u = x + 1.;
  return copysign_(log_of_positive(logarithm_and(u, F64{}, (x - (u - 1.)) / u), u), x);
}
//: erf_ / f64 F64
INLINE F64 erf_(F64 x) {
  F64 a = absolute(x), z = a * a;
  F64 p = splat(F64{}, 5.957176147748911e-11);
  p = p * z + -1.1372848856791674e-09;
  p = p * z + 1.4659775274047436e-08;
  p = p * z + -1.6350312701054695e-07;
  p = p * z + 1.6461000484121368e-06;
  p = p * z + -1.4925595266831182e-05;
  p = p * z + 0.0001205533111164271;
  p = p * z + -0.000854832698083379;
  p = p * z + 0.0052239776248180145;
  p = p * z + -0.026866170645076792;
  p = p * z + 0.11283791670954879;
  p = p * z + -0.3761263890318375;
  F64 small = a + a * (p * z + 0.12837916709551257);
  // 1 - e^(-a^2) q: all of it from 6 on.
  F64 c = a > 6. ? splat(F64{}, 6.) : a, t = (c - 3.) / (c + 3.);
  F64 q = splat(F64{}, 3.381355142042904e-09);
  q = q * t + 1.2755818949624478e-06;
  q = q * t + 2.0135111426447427e-06;
  q = q * t + -8.00978093907608e-06;
  q = q * t + -1.2845780030775907e-05;
  q = q * t + 6.406279226046039e-05;
  q = q * t + 4.525434558991009e-05;
  q = q * t + -0.0005970624964924544;
  q = q * t + 0.0007077464666941425;
  q = q * t + 0.004269136356961225;
  q = q * t + -0.024392499318915004;
  q = q * t + 0.07166583719747308;
  q = q * t + -0.15011593650077898;
  q = q * t + 0.24560380171233487;
  q = q * t + -0.3262335600430372;
  q = q * t + 0.17900115118138996;
  return copysign_(a < 1. ? small : 1. - exp_(c * -c) * q, x);
}
//: sine64 / f64 F64
// Of x, and `quarter` of a turn on. The turns, fewer than 2^17, are taken off in steps of which none loses anything.
INLINE F64 sine64(F64 x, i64 quarter) {
  F64 shifted = x * 0.63661977236758134 + 6755399441055744., n = shifted - 6755399441055744.;
  I64 q = (I64)shifted - 0x4338000000000000l + quarter;
  F64 near = x - n * 1.5707963267341256, step = n * 6.077100506303966e-11, nearer = near - step;
  F64 last = n * 2.0222662487959506e-21, r = nearer - last;
  F64 rest = (((near - nearer) - step) + ((nearer - r) - last)), z = r * r, half = z * .5;
  F64 s = splat(F64{}, 1.5917988979397435e-10);
  s = s * z + -2.5051129896450185e-08;
  s = s * z + 2.7557316093198404e-06;
  s = s * z + -0.00019841269836740532;
  s = s * z + 0.008333333333330936;
  s = s * z + -0.16666666666666666;
  s = r + (s * (z * r) + rest * (1. - half));
  F64 c = splat(F64{}, -1.138254464534925e-11), one = 1. - half;
  c = c * z + 2.087614504941318e-09;
  c = c * z + -2.755731726587808e-07;
  c = c * z + 2.48015872987544e-05;
  c = c * z + -0.0013888888888887389;
  c = c * z + 0.041666666666666664;
  c = one + (((1. - one) - half) + (c * (z * z) - r * rest));
  F64 y = (q & 1) != 0 ? c : s;
  return (F64)((I64)y ^ ((q & 2) << 62));
}
// The lanes that are too far for that, or no numbers, by the C library.
INLINE F64 where_near(F64 y, F64 x, f64 (*library)(f64)) {
  for (int k = 0; k < N; k++) if (__builtin_expect(!(__builtin_fabs(x[k]) < 1e5), 0)) y[k] = library(x[k]);
  return y;
}
//: sin_ / f64 F64
INLINE F64 sin_(F64 x) { return where_near(x == 0. ? x : sine64(x, 0), x, sin); }
//: cos_ / f64 F64
INLINE F64 cos_(F64 x) { return where_near(sine64(x, 1), x, cos); }
