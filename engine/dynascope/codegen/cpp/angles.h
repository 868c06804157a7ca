// Angles and the hypotenuse, in lanes: arcsines 2.3 ulp, the others 1.2. The polynomials are Chebyshev fits made for this file.
//: arctangent / f32 F32
// Of a number from 0 to 1.
INLINE F32 arctangent(F32 t) {
  F32 z = t * t, p = splat(F32{}, -0.0009362994719496015f);
  p = fused(p, z, splat(F32{}, 0.00620725453378005f));
  p = fused(p, z, splat(F32{}, -0.019261081322765883f));
  p = fused(p, z, splat(F32{}, 0.038327445983064846f));
  p = fused(p, z, splat(F32{}, -0.05760716083128117f));
  p = fused(p, z, splat(F32{}, 0.0741749696430051f));
  p = fused(p, z, splat(F32{}, -0.09036742342070782f));
  p = fused(p, z, splat(F32{}, 0.1110470678864422f));
  p = fused(p, z, splat(F32{}, -0.14285317963907304f));
  p = fused(p, z, splat(F32{}, 0.19999990275947271f));
  p = fused(p, z, splat(F32{}, -0.33333333293301176f));
  return fused(p * z, t, t);
}
//: arctangent / f64 F64
INLINE F64 arctangent(F64 t) {
  F64 z = t * t, p = splat(F64{}, 7.767624330289919e-06);
  p = fused(p, z, splat(F64{}, -9.371186345052626e-05));
  p = fused(p, z, splat(F64{}, 0.0005376839297396244));
  p = fused(p, z, splat(F64{}, -0.0019612554271685326));
  p = fused(p, z, splat(F64{}, 0.005140912856746939));
  p = fused(p, z, splat(F64{}, -0.010412153260359241));
  p = fused(p, z, splat(F64{}, 0.01718398172211335));
  p = fused(p, z, splat(F64{}, -0.024191345810140718));
  p = fused(p, z, splat(F64{}, 0.030330719265790507));
  p = fused(p, z, splat(F64{}, -0.035271331066871296));
  p = fused(p, z, splat(F64{}, 0.03938687540798632));
  p = fused(p, z, splat(F64{}, -0.043306538430670664));
  p = fused(p, z, splat(F64{}, 0.04758080083637821));
  p = fused(p, z, splat(F64{}, -0.052624922290256754));
  p = fused(p, z, splat(F64{}, 0.05882264416776449));
  p = fused(p, z, splat(F64{}, -0.06666657934573768));
  p = fused(p, z, splat(F64{}, 0.07692307078827029));
  p = fused(p, z, splat(F64{}, -0.0909090906193528));
  p = fused(p, z, splat(F64{}, 0.11111111110268297));
  p = fused(p, z, splat(F64{}, -0.14285714285701234));
  p = fused(p, z, splat(F64{}, 0.1999999999999992));
  p = fused(p, z, splat(F64{}, -0.3333333333333333));
  return fused(p * z, t, t);
}
//: arcsine / f32 F32
// Of a number from 0 to 1/2.
INLINE F32 arcsine(F32 t) {
  F32 z = t * t, p = splat(F32{}, 0.03097455128897286f);
  p = fused(p, z, splat(F32{}, 0.010574408052348048f));
  p = fused(p, z, splat(F32{}, 0.02361181890493337f));
  p = fused(p, z, splat(F32{}, 0.030269138509140727f));
  p = fused(p, z, splat(F32{}, 0.04464766389945236f));
  p = fused(p, z, splat(F32{}, 0.07499992404380881f));
  p = fused(p, z, splat(F32{}, 0.16666666686085704f));
  return fused(p * z, t, t);
}
//: arcsine / f64 F64
INLINE F64 arcsine(F64 t) {
  F64 z = t * t, p = splat(F64{}, 0.029612034269949298);
  p = fused(p, z, splat(F64{}, -0.019241707598188187));
  p = fused(p, z, splat(F64{}, 0.019554538003846208));
  p = fused(p, z, splat(F64{}, 0.003044870046905273));
  p = fused(p, z, splat(F64{}, 0.009319563332347104));
  p = fused(p, z, splat(F64{}, 0.009621842530506778));
  p = fused(p, z, splat(F64{}, 0.011566459664246437));
  p = fused(p, z, splat(F64{}, 0.01396378000798693));
  p = fused(p, z, splat(F64{}, 0.017352816540553255));
  p = fused(p, z, splat(F64{}, 0.022372157443499355));
  p = fused(p, z, splat(F64{}, 0.0303819444755325));
  p = fused(p, z, splat(F64{}, 0.04464285714255189));
  p = fused(p, z, splat(F64{}, 0.07500000000000118));
  p = fused(p, z, splat(F64{}, 0.16666666666666666));
  return fused(p * z, t, t);
}
//: HALF_TURN
// Half of a turn is one number and what that leaves: the second is added first.
#define HALF_TURN_F32 3.14159274f
#define HALF_TURN_REST_F32 -8.74227766e-8f
#define HALF_TURN_F64 3.1415926535897931
#define HALF_TURN_REST_F64 1.2246467991473532e-16
#define ANGLES(BODY) BODY(F32, f32, HALF_TURN_F32, HALF_TURN_REST_F32) BODY(F64, f64, HALF_TURN_F64, HALF_TURN_REST_F64)
//: atan_
#define BODY(V, T, HALF_TURN, REST) \
  INLINE V atan_(V x) { \
    V a = absolute(x), y = arctangent(a > (T)1 ? (T)1 / a : a); \
    return copysign_(a > (T)1 ? HALF_TURN * (T).5 - (y - REST * (T).5) : y, x); \
  }
ANGLES(BODY)
#undef BODY
//: atan2_
// Of the quotient of the smaller by the larger. Two zeros, and two infinities, are taken for equal: the signs say the rest.
#define BODY(V, T, HALF_TURN, REST) \
  INLINE V atan2_(V y, V x) { \
    V a = absolute(x), b = absolute(y), low = a < b ? a : b, high = a < b ? b : a, t = low / high; \
    t = high == (T)0 ? low : t; \
    t = low == (T)__builtin_inf() ? splat(V{}, (T)1) : t; \
    V angle = arctangent(t); \
    angle = a < b ? HALF_TURN * (T).5 - (angle - REST * (T).5) : angle; \
    angle = copysign_(splat(V{}, (T)1), x) < (T)0 ? HALF_TURN - (angle - REST) : angle; \
    return copysign_(a + b == a + b ? angle : x + y, y); \
  }
ANGLES(BODY)
#undef BODY
//: asin_
#define BODY(V, T, HALF_TURN, REST) \
  INLINE V asin_(V x) { \
    V a = absolute(x), y = arcsine(a > (T).5 ? square_root((T).5 - a * (T).5) : a); \
    return copysign_(a > (T).5 ? HALF_TURN * (T).5 - ((y + y) - REST * (T).5) : y, x); \
  }
ANGLES(BODY)
#undef BODY
//: acos_
#define BODY(V, T, HALF_TURN, REST) \
  INLINE V acos_(V x) { \
    V a = absolute(x), y = arcsine(a > (T).5 ? square_root((T).5 - a * (T).5) : a), far = y + y; \
    V near = HALF_TURN * (T).5 - (copysign_(y, x) - REST * (T).5); \
    return a > (T).5 ? (x < (T)0 ? HALF_TURN - (far - REST) : far) : near; \
  }
ANGLES(BODY)
#undef BODY
//: hypot_
// Squares neither overflow nor vanish: what is large or small is moved by a power of two.
#define BODY(V, T, LARGE, SMALL, DOWN, UP) \
  INLINE V hypot_(V x, V y) { \
    V a = absolute(x), b = absolute(y), high = a < b ? b : a, one = splat(V{}, (T)1); \
    V scale = high > LARGE ? DOWN - V{} : (high < SMALL ? UP - V{} : one); \
    V back = high > LARGE ? UP - V{} : (high < SMALL ? DOWN - V{} : one); \
    V c = a * scale, d = b * scale, length = square_root(c * c + d * d) * back; \
    length = a == (T)__builtin_inf() ? a : length; \
    return b == (T)__builtin_inf() ? b : length; \
  }
BODY(F32, f32, 1e18f, 1e-18f, 1.262177448353619e-29f, 7.922816251426434e+28f)
BODY(F64, f64, 1e150, 1e-150, 1.90109156629516e-211, 5.260135901548374e+210)
#undef BODY
