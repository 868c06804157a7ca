typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned u32; typedef long i64; typedef float f32; typedef double f64; typedef int mask;
#define TO(type, x) to<type>(x)
#define INLINE static inline __attribute__((always_inline))
extern "C" {
float expm1f(float); float sinf(float); float cosf(float); float tanf(float); float asinf(float);
float acosf(float); float atanf(float); float sinhf(float); float coshf(float); float asinhf(float); float acoshf(float);
float atanhf(float); float erfcf(float); float lgammaf(float); float log2f(float); float log10f(float); float log1pf(float);
float exp2f(float); float powf(float, float); float atan2f(float, float); float hypotf(float, float); float fmodf(float, float);
float nextafterf(float, float);
double exp(double); double exp2(double); double expm1(double); double log(double); double log2(double); double log10(double);
double log1p(double); double sin(double); double cos(double); double tan(double); double asin(double); double acos(double);
double atan(double); double sinh(double); double cosh(double); double tanh(double); double asinh(double); double acosh(double);
double atanh(double); double erf(double); double erfc(double); double lgamma(double); double pow(double, double);
double atan2(double, double); double hypot(double, double); double fmod(double, double); double nextafter(double, double);
}

// One element at a time: values that are the same for a whole row. The names match the vector ones below.
template <class A> INLINE A select(mask m, A a, A b) { return m ? a : b; }
INLINE i32 bits(f32 x) { i32 r; __builtin_memcpy(&r, &x, 4); return r; }
INLINE f32 from_bits(i32 x) { f32 r; __builtin_memcpy(&r, &x, 4); return r; }
INLINE i32 to_i32(f32 x) { return x >= 2147483648.f || !(x >= -2147483648.f) ? (i32)0x80000000 : (i32)x; }
INLINE f32 to_f32(i32 x) { return (f32)x; }
INLINE f32 square_root(f32 x) { return __builtin_sqrtf(x); }
INLINE f64 square_root(f64 x) { return __builtin_sqrt(x); }
INLINE f32 splat(f32, f32 x) { return x; }
// A NaN stays a NaN.
INLINE f32 at_most(f32 x, f32 limit) { return x > limit ? limit : x; }
INLINE f32 at_least(f32 x, f32 limit) { return x < limit ? limit : x; }
// a * b + c, in one rounding where the processor has it. Only inside functions of ours: users' sums round as eager's.
#ifdef __FMA__
INLINE f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
#else
INLINE f32 fused(f32 a, f32 b, f32 c) { return a * b + c; }
#endif
//: times_two_to
// y * 2**n, n whole and within 300 of 0, rounded once.
INLINE f32 times_two_to(f32 y, f32 n) {
  i32 k = to_i32(n), half = k >> 1;
  return (y * from_bits((half + 127) << 23)) * from_bits((k - half + 127) << 23);
}
//: bf16_to_f32 f32_to_bf16
INLINE f32 bf16_to_f32(u16 x) { return from_bits((i32)((u32)x << 16)); }
INLINE u16 f32_to_bf16(f32 x) {
  u32 b = (u32)bits(x);
  return x != x ? (u16)0x7fc0 : (u16)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
//: f16_to_f32 f32_to_f16
INLINE f32 f16_to_f32(u16 x) { _Float16 h; __builtin_memcpy(&h, &x, 2); return (f32)h; }
INLINE u16 f32_to_f16(f32 x) { _Float16 h = (_Float16)x; u16 r; __builtin_memcpy(&r, &h, 2); return r; }
//: truth truth_byte load
INLINE mask truth(u8 x) { return x ? -1 : 0; }
INLINE u8 truth_byte(mask m) { return m & 1; }
template <class T> INLINE T load(const T* p) { return *p; }
//: floor_
INLINE f32 floor_(f32 x) { return __builtin_floorf(x); }
INLINE f64 floor_(f64 x) { return __builtin_floor(x); }
//: ceil_
INLINE f32 ceil_(f32 x) { return __builtin_ceilf(x); }
INLINE f64 ceil_(f64 x) { return __builtin_ceil(x); }
//: trunc_
INLINE f32 trunc_(f32 x) { return __builtin_truncf(x); }
INLINE f64 trunc_(f64 x) { return __builtin_trunc(x); }
//: round_
INLINE f32 round_(f32 x) { return __builtin_rintf(x); }
INLINE f64 round_(f64 x) { return __builtin_rint(x); }
//: absolute copysign_ sign_bit
INLINE f32 absolute(f32 x) { return __builtin_fabsf(x); }
INLINE f64 absolute(f64 x) { return __builtin_fabs(x); }
INLINE i64 absolute(i64 x) { return x < 0 ? -x : x; }
INLINE i32 absolute(i32 x) { return x < 0 ? -x : x; }
INLINE i16 absolute(i16 x) { return x < 0 ? -x : x; }
INLINE i8 absolute(i8 x) { return x < 0 ? -x : x; }
INLINE u8 absolute(u8 x) { return x; }
INLINE f32 copysign_(f32 x, f32 y) { return __builtin_copysignf(x, y); }
INLINE f64 copysign_(f64 x, f64 y) { return __builtin_copysign(x, y); }
INLINE mask sign_bit(f32 x) { return __builtin_signbit(x) ? -1 : 0; }
INLINE mask sign_bit(f64 x) { return __builtin_signbit(x) ? -1 : 0; }

//: check_index
// Out-of-range indices: the first is reported, and 0 is read in its place. Odd modes wrap; half a mode is what reads.
INLINE i64 check_index(i64 i, i64 extent, i64 dimension, int mode, i64* error) {
  i64 place = (mode & 1) && i < 0 ? i + extent : i;
  if (__builtin_expect(place < 0 || place >= extent, 0)) {
    if (!error[0]) { error[1] = i; error[2] = extent; error[3] = dimension; error[0] = 1 + mode / 2; }
    return 0;
  }
  return place;
}

//: float_to
template <class T> INLINE T float_to(f64 x) {
  // Out of range gives what the processor's conversion gives, as the vector form does.
  i64 wide = x >= 9223372036854775808. || !(x >= -9223372036854775808.) ? (i64)0x8000000000000000 : (i64)x;
  if (sizeof(T) == 4 && (x >= 2147483648. || !(x >= -2147483649.))) return (T)0x80000000;
  return (T)wide;
}
//: maximum minimum fmax_ fmin_
template <class T> INLINE T maximum(T a, T b) { return (a > b) | (a != a) ? a : b; }
template <class T> INLINE T minimum(T a, T b) { return (a < b) | (a != a) ? a : b; }
template <class T> INLINE T fmax_(T a, T b) { return (a >= b) | (b != b) ? a : b; }
template <class T> INLINE T fmin_(T a, T b) { return (a <= b) | (b != b) ? a : b; }
//: fmod_
INLINE f32 fmod_(f32 a, f32 b) { return fmodf(a, b); }
INLINE f64 fmod_(f64 a, f64 b) { return fmod(a, b); }
template <class T> INLINE T fmod_(T a, T b) { return a % b; }
//: remainder_
template <class T> INLINE T remainder_(T a, T b) { T m = fmod_(a, b); return m != 0 && ((m < 0) != (b < 0)) ? (T)(m + b) : m; }
//: truncate_divide
template <class T> INLINE T truncate_divide(T a, T b) { return a / b; }
INLINE f32 truncate_divide(f32 a, f32 b) { return trunc_(a / b); }
INLINE f64 truncate_divide(f64 a, f64 b) { return trunc_(a / b); }
//: floor_divide
template <class T> INLINE T floor_divide(T a, T b) { T q = a / b, r = a % b; return r != 0 && ((r < 0) != (b < 0)) ? q - 1 : q; }
template <class T> INLINE T floor_divide_float(T a, T b) {
  // Python's: exact multiples stay exact where a / b would round up.
  if (b == 0) return a / b;
  T m = fmod_(a, b), d = (a - m) / b;
  if (m != 0 && ((b < 0) != (m < 0))) d -= 1;
  if (d == 0) return copysign_((T)0, a / b);
  T whole = floor_(d);
  return d - whole > (T)0.5 ? whole + 1 : whole;
}
INLINE f32 floor_divide(f32 a, f32 b) { return floor_divide_float(a, b); }
INLINE f64 floor_divide(f64 a, f64 b) { return floor_divide_float(a, b); }
//: arg_best
template <class T> INLINE void arg_best(T& best, i32& place, T v, i32 at, mask better, mask valid) {
  mask take = valid & (better | (-(mask)(v != v) & -(mask)(best == best)) | (-(mask)(v == best) & -(mask)(at < place)));
  best = select(take, v, best); place = select(take, at, place);
}
@MATHEMATICS@
@RARE@
//: exp_
INLINE f64 exp_(f64 x) { return exp(x); }
//: log_
INLINE f64 log_(f64 x) { return log(x); }
//: tanh_
INLINE f64 tanh_(f64 x) { return tanh(x); }
//: erf_
INLINE f32 erf_(f32 x) { return erf_of_two_parts(x); }
INLINE f64 erf_(f64 x) { return erf(x); }
//: log1p_
INLINE f64 log1p_(f64 x) { return log1p(x); }
//: sigmoid
INLINE f64 sigmoid(f64 x) { return 1. / (1. + exp(-x)); }
