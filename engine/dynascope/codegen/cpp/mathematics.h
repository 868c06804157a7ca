// f32: exp 1 ulp, log 1, tanh 2, erf 1, sigmoid 2.5. Polynomials fitted by bench/fit_polynomials.py.
INLINE F exp_(F x) {
  F t = select((MASK)(x > 89.f), splat(F{}, 89.f), x);
  t = select((MASK)(t < -104.5f), splat(F{}, -104.5f), t);
  F n = (t * 1.44269504f + 12582912.f) - 12582912.f;
  F r = (t - n * 0.693359375f) - n * -2.12194440e-4f;
  F p = (((((1.99171924e-4f * r + 1.394620810e-3f) * r + 8.33326666e-3f) * r + 4.16662679e-2f) * r + 1.66666669e-1f) * r + 0.5f);
  F y = (p * (r * r) + r) + 1.f;
  I k = to_i32(n), half = k >> 1;
  return (y * from_bits((half + 127) << 23)) * from_bits((k - half + 127) << 23);
}
INLINE F log_(F x) {
  MASK tiny = (MASK)(x < 1.17549435e-38f);
  F s = select(tiny, x * 8388608.f, x);
  I b = bits(s) - 0x3f3504f3;
  I e = b >> 23;
  F m = from_bits((b & 0x7fffff) + 0x3f3504f3), f = m - 1.f;
  F k = to_f32(e) - select(tiny, splat(F{}, 23.f), splat(F{}, 0.f));
  F z = f * f;
  F p = ((((((((0.0691534f * f - 0.11789783f) * f + 0.11872975f) * f - 0.12384353f) * f + 0.14218659f) * f - 0.16669251f) * f + 0.20002227f) * f - 0.24999987f) * f + 0.3333331f);
  F y = f * z * p + k * -2.12194440e-4f;
  y = (y - 0.5f * z) + f;
  y = y + k * 0.693359375f;
  y = select((MASK)(x == 0.f), splat(F{}, -__builtin_inff()), y);
  y = select((MASK)(x == __builtin_inff()), x, y);
  return select((MASK)!(x >= 0.f), splat(F{}, __builtin_nanf("")), y);
}
INLINE F log1p_(F x) {
  F u = 1.f + x;
  F y = log_(u) - ((u - 1.f) - x) / u;
  y = select((MASK)(u == 1.f), x, y);
  return select((MASK)((u == __builtin_inff()) | (u == 0.f)), log_(u), y);
}
INLINE F tanh_(F x) {
  F a = absolute(x), z = x * x;
  F small = ((((-0.00560391f * z + 0.02055171f) * z - 0.0537141f) * z + 0.13331153f) * z - 0.33333272f) * z * x + x;
  F large = 1.f - 2.f / (exp_(a + a) + 1.f);
  return select((MASK)(a < 0.625f), small, copysign_(large, x));
}
INLINE F erf_(F x) {
  F a = absolute(x), z = x * x;
  F small = ((((((7.88911776e-5f * z - 8.02084075e-4f) * z + 5.18953528e-3f) * z - 2.68544446e-2f) * z + 1.12836002e-1f) * z - 3.76126271e-1f) * z + 1.28379166e-1f) * x + x;
  F t = select((MASK)(a > 4.f), splat(F{}, 4.f), a);
  F q = ((((((2.16868868e-5f * t - 4.41336830e-4f) * t + 4.20456421e-3f) * t - 2.52082633e-2f) * t + 1.08418588e-1f) * t + 6.33219882e-1f) * t + 1.12957843f) * t - 1.88041492e-4f;
  F large = copysign_(1.f - exp_(-q), x);
  return select((MASK)(a < 1.f), small, select((MASK)(x == x), large, x));
}
INLINE F sigmoid(F x) { return 1.f / (1.f + exp_(-x)); }
