// f32: exp 1 ulp, log 1, tanh 2, erf 1, sigmoid 2.5. The polynomials are weighted Chebyshev fits made for this file.
//: exp_
INLINE F exp_(F x) {
  F t = at_least(at_most(x, 89.f), -104.5f);
  F n = fused(t, splat(F{}, 1.44269504f), splat(F{}, 12582912.f)) - 12582912.f;
  F r = fused(n, splat(F{}, -0.693359375f), t);
  r = fused(n, splat(F{}, 2.12194440e-4f), r);
  F p = fused(fused(fused(fused(fused(splat(F{}, 1.99171924e-4f), r, splat(F{}, 1.394620810e-3f)), r, splat(F{}, 8.33326666e-3f)), r, splat(F{}, 4.16662679e-2f)), r, splat(F{}, 1.66666669e-1f)), r, splat(F{}, 0.5f));
  F y = fused(p, r * r, r) + 1.f;
  // Not left to underflow, which takes the processor a hundred cycles: masks make many of these.
  y = select((MASK)(x < -104.f), splat(F{}, 0.f), y);
  return times_two_to(y, n);
}
//: log_
INLINE F log_(F x) {
  MASK tiny = (MASK)(x < 1.17549435e-38f);
  F s = select(tiny, x * 8388608.f, x);
  I b = bits(s) - 0x3f3504f3;
  I e = b >> 23;
  F m = from_bits((b & 0x7fffff) + 0x3f3504f3), f = m - 1.f;
  F k = to_f32(e) - select(tiny, splat(F{}, 23.f), splat(F{}, 0.f));
  F z = f * f;
  F p = fused(fused(fused(fused(fused(fused(fused(fused(splat(F{}, 0.0691534f), f, splat(F{}, -0.11789783f)), f, splat(F{}, 0.11872975f)), f, splat(F{}, -0.12384353f)), f, splat(F{}, 0.14218659f)), f, splat(F{}, -0.16669251f)), f, splat(F{}, 0.20002227f)), f, splat(F{}, -0.24999987f)), f, splat(F{}, 0.3333331f));
  F y = f * z * p + k * -2.12194440e-4f;
  y = (y - 0.5f * z) + f;
  y = y + k * 0.693359375f;
  y = select((MASK)(x == 0.f), splat(F{}, -__builtin_inff()), y);
  y = select((MASK)(x == __builtin_inff()), x, y);
  return select((MASK)!(x >= 0.f), splat(F{}, __builtin_nanf("")), y);
}
//: logarithm_in
// (log x + rest) * unit + down * two, in a base in which log e is unit + unit_rest and log 2 is two + two_rest; 0.8 ulp where `fused`
// rounds once. The largest parts are added last, with what rounding takes from them.
INLINE F logarithm_in(F x, F down, F rest, f32 unit, f32 unit_rest, f32 two, f32 two_rest) {
  I b = bits(x) - 0x3f3504f3;
  F f = from_bits((b & 0x7fffff) + 0x3f3504f3) - 1.f, k = to_f32(b >> 23) + down;
  F p = fused(fused(fused(fused(fused(fused(fused(fused(splat(F{}, 0.0691534f), f, splat(F{}, -0.11789783f)), f, splat(F{}, 0.11872975f)), f, splat(F{}, -0.12384353f)), f, splat(F{}, 0.14218659f)), f, splat(F{}, -0.16669251f)), f, splat(F{}, 0.20002227f)), f, splat(F{}, -0.24999987f)), f, splat(F{}, 0.3333331f));
  F first = f * unit, whole = k * two, sum = whole + first;
  F small = fused(f * f * unit, fused(f, p, splat(F{}, -0.5f)), fused(f, splat(F{}, unit_rest), fused(f, splat(F{}, unit), -first)) + rest);
  return sum + (fused(k, splat(F{}, two_rest), small) + ((whole - sum) + first));
}
// y is the logarithm of x, but where x has none or it is infinite.
INLINE F where_positive(F y, F x) {
  y = select((MASK)(x == 0.f), splat(F{}, -__builtin_inff()), y);
  y = select((MASK)(x == __builtin_inff()), x, y);
  return select((MASK)!(x >= 0.f), splat(F{}, __builtin_nanf("")), y);
}
//: log1p_
INLINE F log1p_(F x) {
  F u = 1.f + x, y = logarithm_in(u, splat(F{}, 0.f), (x - (u - 1.f)) / u, 1.f, 0.f, 0.693359375f, -2.12194440e-4f);
  return copysign_(where_positive(y, u), x);
}
//: tanh_
INLINE F tanh_(F x) {
  F a = absolute(x), z = x * x;
  F small = fused(fused(fused(fused(fused(splat(F{}, -0.00609671418f), z, splat(F{}, 0.0209971797f)), z, splat(F{}, -0.0538509078f)), z, splat(F{}, 0.133327693f)), z, splat(F{}, -0.333333284f)) * z, a, a);
  F large = 1.f - 2.f / (exp_(a + a) + 1.f);
  return copysign_(select((MASK)(a < 0.625f), small, large), x);
}
//: erf_of_two_parts
INLINE F erf_of_two_parts(F x) {
  F a = absolute(x), z = x * x;
  F small = fused(fused(fused(fused(fused(fused(fused(splat(F{}, 7.88911776e-5f), z, splat(F{}, -8.02084075e-4f)), z, splat(F{}, 5.18953528e-3f)), z, splat(F{}, -2.68544446e-2f)), z, splat(F{}, 1.12836002e-1f)), z, splat(F{}, -3.76126271e-1f)), z, splat(F{}, 1.28379166e-1f)), x, x);
  F t = at_most(a, 4.f);
  F q = fused(fused(fused(fused(fused(fused(fused(splat(F{}, 2.16868868e-5f), t, splat(F{}, -4.41336830e-4f)), t, splat(F{}, 4.20456421e-3f)), t, splat(F{}, -2.52082633e-2f)), t, splat(F{}, 1.08418588e-1f)), t, splat(F{}, 6.33219882e-1f)), t, splat(F{}, 1.12957843f)), t, splat(F{}, -1.88041492e-4f));
  F large = copysign_(1.f - exp_(-q), x);
  return select((MASK)(a < 1.f), small, select((MASK)(x == x), large, x));
}
//: sigmoid
INLINE F sigmoid(F x) { return 1.f / (1.f + exp_(-x)); }
