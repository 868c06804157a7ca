// Vectors of @N@ lanes, whatever the element type; masks are i32 lanes of 0 and -1.
namespace v@N@ {
enum { N = @N@ };
#define VECTOR(name, type) \
  typedef type name __attribute__((vector_size(N * sizeof(type)))); \
  typedef type name##_memory __attribute__((vector_size(N * sizeof(type)), aligned(sizeof(type)), may_alias));
VECTOR(F32, f32) VECTOR(F64, f64) VECTOR(I64, i64) VECTOR(I32, i32) VECTOR(I16, i16) VECTOR(I8, i8) VECTOR(U8, u8)
VECTOR(U16, u16) VECTOR(U32, u32)
#undef VECTOR
typedef I32 M;

// Lanes converted. gcc does those of half or twice the width as vectors, and integers further apart one by one.
template <class T, class S> INLINE T to(S x) {
  enum { S_BYTES = sizeof(S) / N, T_BYTES = sizeof(T) / N };
  if constexpr (S_BYTES == 1 && T_BYTES > 2)
    return to<T>(__builtin_convertvector(x, I16));
  else if constexpr ((S_BYTES == 2 && T_BYTES == 8) || (T_BYTES < 4 && S_BYTES == 8))
    return to<T>(__builtin_convertvector(x, I32));
  else if constexpr (T_BYTES == 1 && S_BYTES == 4)
    return to<T>(__builtin_convertvector(x, I16));
  else
    return __builtin_convertvector(x, T);
}
// n < N lanes are at the end of a row: the others are neither read nor written.
#define MEMORY_BY(V, T, SOME, READ, WRITE) \
  INLINE V load(const T* p, long n) { \
    if (__builtin_expect(n == N, 1)) return *(const V##_memory*)p; \
    SOME; READ; return v; \
  } \
  INLINE void store(T* p, V v, long n) { \
    if (__builtin_expect(n == N, 1)) *(V##_memory*)p = v; else { SOME; WRITE; } \
  } \
  INLINE V splat(V, T x) { return x - V{}; }
#define MEMORY(V, T) \
  MEMORY_BY(V, T, , V v = {}; __builtin_memcpy(&v, p, n * sizeof(T)), __builtin_memcpy(p, &v, n * sizeof(T)))
#if defined(__AVX512VL__) && defined(__AVX512BW__) && !defined(__clang__)
#define MASKED(V, T, name, W, S) \
  MEMORY_BY(V, T, u32 some = (1u << n) - 1, V v = (V)__builtin_ia32_load##name##_mask((const S*)p, (W){}, some), \
            __builtin_ia32_store##name##_mask((S*)p, (W)v, some))
#else
#define MASKED(V, T, name, W, S) MEMORY(V, T)
#endif
//: load store splat / f64 F64
#if @N@ == 8
MASKED(F64, f64, upd512, F64, f64)
#else
MEMORY(F64, f64)
#endif
//: load store splat / f32 F32
#if @N@ == 16
MASKED(F32, f32, ups512, F32, f32)
#else
MEMORY(F32, f32)
#endif
//: load store splat / i64 I64
MEMORY(I64, i64)
//: load store splat / i32 I32
#if @N@ == 16
MASKED(I32, i32, dqusi512, I32, i32)
#else
MEMORY(I32, i32)
#endif
//: load store splat / i16 I16
MEMORY(I16, i16)
//: load store splat / i8 I8
MEMORY(I8, i8)
//: load store splat / u8 U8
MEMORY(U8, u8)
//: load store splat / u16 U16
#if @N@ == 16
MASKED(U16, u16, dquhi256, I16, i16)
#else
MEMORY(U16, u16)
#endif
//:
#undef MEMORY
#undef MASKED
#undef MEMORY_BY
INLINE M iota() { M m; for (int k = 0; k < N; k++) m[k] = k; return m; }
INLINE I64 iota64() { I64 m; for (int k = 0; k < N; k++) m[k] = k; return m; }
INLINE M lanes(long n) { return n == N ? M{} - 1 : iota() < (i32)n; }
//: lane_of
// Which lane holds a position, of lanes that begin at `first`: -1 for those before all lanes, N for those behind.
INLINE i32 lane_of(i64 value, i64 first) { return value < first ? -1 : value - first < N ? (i32)(value - first) : N; }
//:

INLINE F32 select(M m, F32 a, F32 b) { return m ? a : b; }
INLINE I32 select(M m, I32 a, I32 b) { return m ? a : b; }
//:
#define SELECT(V, W) INLINE V select(M m, V a, V b) { return TO(W, m) ? a : b; }
//: every interleave
// every<S>: p[0], p[S], p[2 * S], ... and no element behind the last of these is read. interleave: a, b, ... in turns.
#define PART(V, at) (*(const V##_memory*)(p + (at)))
#define PICKED(V, W, first, second, test, lane, other) \
  [&] { W m; for (int k = 0; k < N; k++) m[k] = (test) ? (lane) : N + (other); return picked(first, second, m); }()
#define AT (j * N + k)
#if defined(__clang__)
#define STEPS(V, W, T) \
  template <int S> INLINE V every(V, const T* p, long n) { V v = {}; for (long k = 0; k < n; k++) v[k] = p[k * S]; return v; } \
  template <class... R> INLINE void interleave(T* p, long n, V a, R... rest) { \
    const V values[] = {a, rest...}; const int S = 1 + sizeof...(R); \
    for (long k = 0; k < n; k++) for (int j = 0; j < S; j++) p[k * S + j] = values[j][k]; }
#else
#define STEPS(V, W, T) \
  INLINE V picked(V a, V b, W m) { return __builtin_shuffle(a, b, m); } \
  template <int S> INLINE V every(V, const T* p, long n) { \
    V v = {}; \
    if (__builtin_expect(n != N, 0)) { for (long k = 0; k < n; k++) v[k] = p[k * S]; return v; } \
    v = PICKED(V, W, PART(V, 0), PART(V, N - 1), k * S < N, k * S, k * S - (N - 1)); \
    if constexpr (S > 2) v = PICKED(V, W, v, PART(V, 2 * (N - 1)), k * S < 2 * N - 1, k, k * S - 2 * (N - 1)); \
    if constexpr (S > 3) v = PICKED(V, W, v, PART(V, 3 * (N - 1)), k * S < 3 * N - 2, k, k * S - 3 * (N - 1)); \
    return v; \
  } \
  template <int S, int j> INLINE V in_turns(V a, V b, V c, V d) { \
    V v = PICKED(V, W, a, b, AT % S == 0, AT / S, AT % S == 1 ? AT / S : 0); \
    if constexpr (S > 2) v = PICKED(V, W, v, c, AT % S != 2, k, AT / S); \
    if constexpr (S > 3) v = PICKED(V, W, v, d, AT % S != 3, k, AT / S); \
    return v; \
  } \
  template <int S> INLINE void in_turns(T* p, long n, V a, V b, V c, V d) { \
    if (__builtin_expect(n != N, 0)) { \
      for (long k = 0; k < n; k++) { \
        p[k * S] = a[k]; p[k * S + 1] = b[k]; \
        if constexpr (S > 2) p[k * S + 2] = c[k]; \
        if constexpr (S > 3) p[k * S + 3] = d[k]; \
      } \
      return; \
    } \
    *(V##_memory*)p = in_turns<S, 0>(a, b, c, d); *(V##_memory*)(p + N) = in_turns<S, 1>(a, b, c, d); \
    if constexpr (S > 2) *(V##_memory*)(p + 2 * N) = in_turns<S, 2>(a, b, c, d); \
    if constexpr (S > 3) *(V##_memory*)(p + 3 * N) = in_turns<S, 3>(a, b, c, d); \
  } \
  INLINE void interleave(T* p, long n, V a, V b) { in_turns<2>(p, n, a, b, a, a); } \
  INLINE void interleave(T* p, long n, V a, V b, V c) { in_turns<3>(p, n, a, b, c, a); } \
  INLINE void interleave(T* p, long n, V a, V b, V c, V d) { in_turns<4>(p, n, a, b, c, d); }
#endif
//: every interleave / f64 F64
STEPS(F64, I64, f64)
//: every interleave / f32 F32
STEPS(F32, I32, f32)
//: every interleave / i64 I64
STEPS(I64, I64, i64)
//: every interleave / i32 I32
STEPS(I32, I32, i32)
//: every interleave / i16 I16
STEPS(I16, I16, i16)
//: every interleave / u16 U16
STEPS(U16, I16, u16)
//: every interleave / i8 I8
STEPS(I8, I8, i8)
//: every interleave / u8 U8
STEPS(U8, I8, u8)
//: turn
template <class T> INLINE void turn_elements(T* block, const T* p, long stride) {
  for (int k = 0; k < N; k++)
    for (int j = 0; j < 16; j++) block[j * N + k] = p[k * stride + j];
}
#if defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TURNED_BY_LANES
#endif
#endif
#if defined(TURNED_BY_LANES) && @N@ == 16
// Sixteen vectors at once. Lanes change places by pairs, then pairs, fours and halves do. In straight lines: gcc keeps arrays of vectors in memory.
#define EVEN1(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define ODD1(a, b) __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define EVEN2(a, b) __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define ODD2(a, b) __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define EVEN4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define ODD4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define EVEN8(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define ODD8(a, b) __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define READ(k) V r##k; __builtin_memcpy(&r##k, p + k * stride, sizeof(V));
#define KEEP(k, value) { V kept = value; __builtin_memcpy(block + (k) * N, &kept, sizeof(V)); }
#define FOUR(a, b, c, d) \
  V l##a = EVEN1(r##a, r##b), h##a = ODD1(r##a, r##b), l##c = EVEN1(r##c, r##d), h##c = ODD1(r##c, r##d); \
  r##a = EVEN2(l##a, l##c); r##b = ODD2(l##a, l##c); r##c = EVEN2(h##a, h##c); r##d = ODD2(h##a, h##c);
#define WRITE(k, a, b, c, d) \
  V s##k = EVEN4(a, b), t##k = EVEN4(c, d), u##k = ODD4(a, b), v##k = ODD4(c, d); \
  KEEP(k, EVEN8(s##k, t##k)) KEEP(4 + k, EVEN8(u##k, v##k)) KEEP(8 + k, ODD8(s##k, t##k)) KEEP(12 + k, ODD8(u##k, v##k))
template <class V, class T> INLINE void turn_lanes(T* block, const T* p, long stride) {
  READ(0) READ(1) READ(2) READ(3) READ(4) READ(5) READ(6) READ(7)
  READ(8) READ(9) READ(10) READ(11) READ(12) READ(13) READ(14) READ(15)
  FOUR(0, 1, 2, 3) FOUR(4, 5, 6, 7) FOUR(8, 9, 10, 11) FOUR(12, 13, 14, 15)
  WRITE(0, r0, r4, r8, r12) WRITE(1, r1, r5, r9, r13) WRITE(2, r2, r6, r10, r14) WRITE(3, r3, r7, r11, r15)
}
#undef READ
#undef KEEP
#undef FOUR
#undef WRITE
#undef EVEN1
#undef ODD1
#undef EVEN2
#undef ODD2
#undef EVEN4
#undef ODD4
#undef EVEN8
#undef ODD8
#endif
// block[j * N + k] = p[k * stride + j]: n runs of `steps` elements become `steps` vectors of n lanes.
template <class T> INLINE void turn(T* block, const T* p, long stride, long n, long steps) {
  long whole = n == N ? steps & -16 : 0;
  for (long first = 0; first < whole; first += 16) {
#if defined(TURNED_BY_LANES) && @N@ == 16
    if constexpr (sizeof(T) == 4) turn_lanes<I32>(block + first * N, p + first, stride);
    else if constexpr (sizeof(T) == 2) turn_lanes<I16>(block + first * N, p + first, stride);
    else
#endif
      turn_elements(block + first * N, p + first, stride);
  }
  for (long k = 0; k < n; k++)
    for (long j = whole; j < steps; j++) block[j * N + k] = p[k * stride + j];
}
//: select / f64 F64
SELECT(F64, I64)
//: select / i64 I64
SELECT(I64, I64)
//: select / i16 I16
SELECT(I16, I16)
//: select / u16 U16
SELECT(U16, I16)
//: select / i8 I8
SELECT(I8, I8)
//: select / u8 U8
SELECT(U8, I8)
//:
#undef SELECT
//: keep fresh
template <class V> INLINE V keep(V v, long n, V neutral) { return n == N ? v : select(lanes(n), v, neutral); }
// The lanes before the first new one were counted by the step before.
template <class V> INLINE V fresh(V v, long first, V neutral) { return first == 0 ? v : select(iota() >= (i32)first, v, neutral); }

//: compared truth truth_byte bits from_bits to_i32 to_f32 any_lane all_lanes
INLINE M compared(I32 m) { return m; }
INLINE M compared(I64 m) { return TO(M, m); }
INLINE M compared(I16 m) { return TO(M, m); }
INLINE M compared(I8 m) { return TO(M, m); }
INLINE M truth(U8 x) { return TO(M, (I8)(x != 0)); }
INLINE U8 truth_byte(M m) { return TO(U8, m & 1); }
INLINE I32 bits(F32 x) { return (I32)x; }
INLINE F32 from_bits(I32 x) { return (F32)x; }
INLINE I32 to_i32(F32 x) { return TO(I32, x); }
INLINE F32 to_f32(I32 x) { return TO(F32, x); }
INLINE bool any_lane(M m) { i32 r = 0; for (int k = 0; k < N; k++) r |= m[k]; return r; }
INLINE bool all_lanes(M m) { i32 r = -1; for (int k = 0; k < N; k++) r &= m[k]; return r; }

//: at_most at_least
#if defined(__AVX512F__) && !defined(__clang__) && @N@ == 16
INLINE F32 at_most(F32 x, f32 limit) { return __builtin_ia32_minps512_mask(limit - F32{}, x, x, -1, 4); }
INLINE F32 at_least(F32 x, f32 limit) { return __builtin_ia32_maxps512_mask(limit - F32{}, x, x, -1, 4); }
#elif defined(__AVX__) && !defined(__clang__) && @N@ == 8
INLINE F32 at_most(F32 x, f32 limit) { return __builtin_ia32_minps256(limit - F32{}, x); }
INLINE F32 at_least(F32 x, f32 limit) { return __builtin_ia32_maxps256(limit - F32{}, x); }
#else
INLINE F32 at_most(F32 x, f32 limit) { return x > limit ? limit - F32{} : x; }
INLINE F32 at_least(F32 x, f32 limit) { return x < limit ? limit - F32{} : x; }
#endif
//: times_two_to
#if defined(__AVX512F__) && !defined(__clang__) && @N@ == 16
INLINE F32 times_two_to(F32 y, F32 n) { return __builtin_ia32_scalefps512_mask(y, n, y, -1, 4); }
#else
INLINE F32 times_two_to(F32 y, F32 n) {
  I32 k = to_i32(n), half = k >> 1;
  return (y * from_bits((half + 127) << 23)) * from_bits((k - half + 127) << 23);
}
#endif
//: bf16_to_f32 f32_to_bf16
INLINE F32 bf16_to_f32(U16 x) { return (F32)(TO(U32, x) << 16); }
INLINE U16 f32_to_bf16(F32 x) {
  U32 b = (U32)x;
  U32 r = (b + 0x7fff + ((b >> 16) & 1)) >> 16;
  return TO(U16, (U32)((x != x) ? (I32)(U32{} + 0x7fc0) : (I32)r));
}
//: f16_to_f32 f32_to_f16
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__) && @N@ == 16
INLINE F32 f16_to_f32(U16 x) { return (F32)__builtin_ia32_vcvtph2ps512_mask((I16)x, F32{}, -1, 4); }
INLINE U16 f32_to_f16(F32 x) { return (U16)__builtin_ia32_vcvtps2ph512_mask(x, 0, I16{}, -1); }
#elif defined(__F16C__) && defined(__GNUC__) && !defined(__clang__) && @N@ == 8
INLINE F32 f16_to_f32(U16 x) { return (F32)__builtin_ia32_vcvtph2ps256((I16)x); }
INLINE U16 f32_to_f16(F32 x) { return (U16)__builtin_ia32_vcvtps2ph256(x, 0); }
#else
INLINE F32 f16_to_f32(U16 x) { F32 r; for (int k = 0; k < N; k++) r[k] = ::f16_to_f32((u16)x[k]); return r; }
INLINE U16 f32_to_f16(F32 x) { U16 r; for (int k = 0; k < N; k++) r[k] = ::f32_to_f16((f32)x[k]); return r; }
#endif
//: square_root
#if defined(__AVX512F__) && !defined(__clang__) && @N@ == 16
INLINE F32 square_root(F32 x) { return __builtin_ia32_sqrtps512_mask(x, x, -1, 4); }
#elif defined(__AVX__) && !defined(__clang__) && @N@ == 8
INLINE F32 square_root(F32 x) { return __builtin_ia32_sqrtps256(x); }
#else
INLINE F32 square_root(F32 x) { F32 r; for (int k = 0; k < N; k++) r[k] = __builtin_sqrtf(x[k]); return r; }
#endif
#if defined(__AVX512F__) && !defined(__clang__) && @N@ == 8
INLINE F64 square_root(F64 x) { return __builtin_ia32_sqrtpd512_mask(x, x, -1, 4); }
#elif defined(__AVX__) && !defined(__clang__) && @N@ == 4
INLINE F64 square_root(F64 x) { return __builtin_ia32_sqrtpd256(x); }
#else
INLINE F64 square_root(F64 x) { F64 r; for (int k = 0; k < N; k++) r[k] = __builtin_sqrt(x[k]); return r; }
#endif

//: fused
#if defined(__AVX512F__) && !defined(__clang__) && @N@ == 16
enum { FUSES = 1 };
INLINE F32 fused(F32 a, F32 b, F32 c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4); }
#elif defined(__FMA__) && !defined(__clang__) && @N@ == 8
enum { FUSES = 1 };
INLINE F32 fused(F32 a, F32 b, F32 c) { return __builtin_ia32_vfmaddps256(a, b, c); }
#else
enum { FUSES = 0 };
INLINE F32 fused(F32 a, F32 b, F32 c) { return a * b + c; }
#endif
//: fused / f64 F64
#if defined(__AVX512F__) && !defined(__clang__) && @N@ == 8
enum { FUSES_F64 = 1 };
INLINE F64 fused(F64 a, F64 b, F64 c) { return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4); }
#elif defined(__FMA__) && !defined(__clang__) && @N@ == 4
enum { FUSES_F64 = 1 };
INLINE F64 fused(F64 a, F64 b, F64 c) { return __builtin_ia32_vfmaddpd256(a, b, c); }
#else
enum { FUSES_F64 = 0 };
INLINE F64 fused(F64 a, F64 b, F64 c) { return a * b + c; }
#endif
//: absolute copysign_ sign_bit
INLINE F32 absolute(F32 x) { return (F32)((I32)x & 0x7fffffff); }
INLINE F64 absolute(F64 x) { return (F64)((I64)x & 0x7fffffffffffffffl); }
#define ABSOLUTE(V) INLINE V absolute(V x) { return x < 0 ? -x : x; }
ABSOLUTE(I64) ABSOLUTE(I32) ABSOLUTE(I16) ABSOLUTE(I8)
#undef ABSOLUTE
INLINE U8 absolute(U8 x) { return x; }
INLINE F32 copysign_(F32 x, F32 y) { return (F32)(((I32)x & 0x7fffffff) | ((I32)y & (i32)0x80000000)); }
INLINE F64 copysign_(F64 x, F64 y) { return (F64)(((I64)x & 0x7fffffffffffffffl) | ((I64)y & (i64)0x8000000000000000l)); }
INLINE M sign_bit(F32 x) { return (I32)x < 0; }
INLINE M sign_bit(F64 x) { return TO(M, (I64)x < 0); }
//: divided
// a / b for many a by one b: with a product, and a remainder that makes it round as the quotient does. Where that does
// not hold (b tiny or huge, a infinite) it is divided.
#if defined(__AVX512F__) && !defined(__clang__) && @N@ == 16
INLINE F32 divided(F32 a, f32 b) {
  f32 size = __builtin_fabsf(b), r = size > 0x1p-100f && size < 0x1p100f ? 1.f / b : __builtin_nanf("");
  F32 by = splat(F32{}, r), q = a * by;
  F32 quotient = fused(fused(-q, splat(F32{}, b), a), by, q);
  if (__builtin_expect(__builtin_ia32_cmpps512_mask(quotient, quotient, 3, -1, 4) != 0, 0)) return a / b;
  return copysign_(quotient, q);
}
#else
INLINE F32 divided(F32 a, f32 b) { return a / b; }
#endif
//: trunc_
INLINE F32 trunc_(F32 x) { return absolute(x) < 8388608.f ? copysign_(TO(F32, TO(I32, x)), x) : x; }
INLINE F64 trunc_(F64 x) { return absolute(x) < 4503599627370496. ? copysign_(TO(F64, TO(I64, x)), x) : x; }
//: round_
INLINE F32 round_(F32 x) {
  F32 whole = copysign_((absolute(x) + 8388608.f) - 8388608.f, x);
  return absolute(x) < 8388608.f ? whole : x;
}
INLINE F64 round_(F64 x) {
  F64 whole = copysign_((absolute(x) + 4503599627370496.) - 4503599627370496., x);
  return absolute(x) < 4503599627370496. ? whole : x;
}
//: floor_
INLINE F32 floor_(F32 x) { F32 t = trunc_(x); return copysign_(x < t ? t - 1.f : t, x); }
INLINE F64 floor_(F64 x) { F64 t = trunc_(x); return copysign_(x < t ? t - 1. : t, x); }
//: ceil_
INLINE F32 ceil_(F32 x) { F32 t = trunc_(x); return copysign_(x > t ? t + 1.f : t, x); }
INLINE F64 ceil_(F64 x) { F64 t = trunc_(x); return copysign_(x > t ? t + 1. : t, x); }

//:
#define EXTREMA(V) \
  INLINE V maximum(V a, V b) { return (a > b) | (a != a) ? a : b; } \
  INLINE V minimum(V a, V b) { return (a < b) | (a != a) ? a : b; } \
  INLINE V fmax_(V a, V b) { return (a >= b) | (b != b) ? a : b; } \
  INLINE V fmin_(V a, V b) { return (a <= b) | (b != b) ? a : b; }
#define ARGUMENT(V) \
  INLINE void arg_best(V& best, I32& place, V v, I32 at, M better, M valid) { \
    M take = valid & (better | (compared(v != v) & compared(best == best)) | (compared(v == best) & (at < place))); \
    best = select(take, v, best); place = select(take, at, place); \
  }
//: maximum minimum fmax_ fmin_ / f32 F32
#if defined(__AVX512F__) && !defined(__clang__) && @N@ == 16
// The processor gives b where one is a NaN; lanes where a is one keep a.
INLINE F32 maximum(F32 a, F32 b) { return __builtin_ia32_maxps512_mask(a, b, a, __builtin_ia32_cmpps512_mask(a, a, 7, -1, 4), 4); }
INLINE F32 minimum(F32 a, F32 b) { return __builtin_ia32_minps512_mask(a, b, a, __builtin_ia32_cmpps512_mask(a, a, 7, -1, 4), 4); }
INLINE F32 fmax_(F32 a, F32 b) { return (a >= b) | (b != b) ? a : b; }
INLINE F32 fmin_(F32 a, F32 b) { return (a <= b) | (b != b) ? a : b; }
#elif defined(__AVX__) && !defined(__clang__) && @N@ == 8
INLINE F32 maximum(F32 a, F32 b) { F32 m = __builtin_ia32_maxps256(a, b); return a != a ? a : m; }
INLINE F32 minimum(F32 a, F32 b) { F32 m = __builtin_ia32_minps256(a, b); return a != a ? a : m; }
INLINE F32 fmax_(F32 a, F32 b) { return (a >= b) | (b != b) ? a : b; }
INLINE F32 fmin_(F32 a, F32 b) { return (a <= b) | (b != b) ? a : b; }
#else
EXTREMA(F32)
#endif
//: arg_best / f32 F32
ARGUMENT(F32)
//: maximum minimum fmax_ fmin_ / f64 F64
EXTREMA(F64)
//: arg_best / f64 F64
ARGUMENT(F64)
//: maximum minimum fmax_ fmin_ / i64 I64
EXTREMA(I64)
//: arg_best / i64 I64
ARGUMENT(I64)
//: maximum minimum fmax_ fmin_ / i32 I32
EXTREMA(I32)
//: arg_best / i32 I32
ARGUMENT(I32)
//: maximum minimum fmax_ fmin_ / i16 I16
EXTREMA(I16)
//: arg_best / i16 I16
ARGUMENT(I16)
//: maximum minimum fmax_ fmin_ / i8 I8
EXTREMA(I8)
//: arg_best / i8 I8
ARGUMENT(I8)
//: maximum minimum fmax_ fmin_ / u8 U8
EXTREMA(U8)
//: arg_best / u8 U8
ARGUMENT(U8)
//:
#undef EXTREMA
#undef ARGUMENT
//:
#if defined(__GNUC__) && !defined(__clang__)
#define FOLDED
INLINE F32 across(F32 v, int h) { return __builtin_shuffle(v, iota() ^ h); }
INLINE F64 across(F64 v, int h) { return __builtin_shuffle(v, iota64() ^ h); }
INLINE I64 across(I64 v, int h) { return __builtin_shuffle(v, iota64() ^ h); }
#endif
#define HORIZONTAL(name, V, T, combine) \
  INLINE T name(V v) { T r = v[0]; for (int k = 1; k < N; k++) { T x = v[k]; r = combine; } return r; }
//: prod_of / f32 F32
HORIZONTAL(prod_of, F32, f32, r * x)
//: prod_of / f64 F64
HORIZONTAL(prod_of, F64, f64, r * x)
//: prod_of / i64 I64
HORIZONTAL(prod_of, I64, i64, r * x)
//: prod_of / i32 I32
HORIZONTAL(prod_of, I32, i32, r * x)
//: prod_of / i16 I16
HORIZONTAL(prod_of, I16, i16, r * x)
//: prod_of / i8 I8
HORIZONTAL(prod_of, I8, i8, r * x)
//: prod_of / u8 U8
HORIZONTAL(prod_of, U8, u8, r * x)
//: max_of / f32 F32
#if defined(FOLDED)
INLINE f32 max_of(F32 v) { _Pragma("GCC unroll 4") for (int h = N / 2; h; h /= 2) v = maximum(v, across(v, h)); return v[0]; }
#else
HORIZONTAL(max_of, F32, f32, x > r || x != x ? x : r)
#endif
//: max_of / f64 F64
HORIZONTAL(max_of, F64, f64, x > r || x != x ? x : r)
//: max_of / i64 I64
HORIZONTAL(max_of, I64, i64, x > r || x != x ? x : r)
//: max_of / i32 I32
HORIZONTAL(max_of, I32, i32, x > r || x != x ? x : r)
//: max_of / i16 I16
HORIZONTAL(max_of, I16, i16, x > r || x != x ? x : r)
//: max_of / i8 I8
HORIZONTAL(max_of, I8, i8, x > r || x != x ? x : r)
//: max_of / u8 U8
HORIZONTAL(max_of, U8, u8, x > r || x != x ? x : r)
//: min_of / f32 F32
#if defined(FOLDED)
INLINE f32 min_of(F32 v) { _Pragma("GCC unroll 4") for (int h = N / 2; h; h /= 2) v = minimum(v, across(v, h)); return v[0]; }
#else
HORIZONTAL(min_of, F32, f32, x < r || x != x ? x : r)
#endif
//: min_of / f64 F64
HORIZONTAL(min_of, F64, f64, x < r || x != x ? x : r)
//: min_of / i64 I64
HORIZONTAL(min_of, I64, i64, x < r || x != x ? x : r)
//: min_of / i32 I32
HORIZONTAL(min_of, I32, i32, x < r || x != x ? x : r)
//: min_of / i16 I16
HORIZONTAL(min_of, I16, i16, x < r || x != x ? x : r)
//: min_of / i8 I8
HORIZONTAL(min_of, I8, i8, x < r || x != x ? x : r)
//: min_of / u8 U8
HORIZONTAL(min_of, U8, u8, x < r || x != x ? x : r)
//: sum_of
#if defined(FOLDED)
INLINE i64 sum_of(I64 v) { _Pragma("GCC unroll 4") for (int h = N / 2; h; h /= 2) v += across(v, h); return v[0]; }
INLINE f64 sum_of(F64 v) { _Pragma("GCC unroll 4") for (int h = N / 2; h; h /= 2) v += across(v, h); return v[0]; }
INLINE f32 sum_of(F32 v) { _Pragma("GCC unroll 4") for (int h = N / 2; h; h /= 2) v += across(v, h); return v[0]; }
#else
HORIZONTAL(sum_of, I64, i64, r + x)
INLINE f64 sum_of(F64 v) { f64 s[N]; __builtin_memcpy(s, &v, sizeof s); for (int h = N / 2; h; h /= 2) for (int k = 0; k < h; k++) s[k] += s[k + h]; return s[0]; }
INLINE f32 sum_of(F32 v) { f32 s[N]; __builtin_memcpy(s, &v, sizeof s); for (int h = N / 2; h; h /= 2) for (int k = 0; k < h; k++) s[k] += s[k + h]; return s[0]; }
#endif
//:
#undef HORIZONTAL
#undef FOLDED

//: check_index
INLINE I64 check_index(I64 i, i64 extent, i64 dimension, int mode, i64* error, long n) {
  I64 place = mode & 1 ? (i < 0 ? i + extent : i) : i;
  I64 bad = (place < 0) | (place >= extent);
  for (long k = 0; k < n; k++)
    if (__builtin_expect(bad[k] != 0, 0)) { place[k] = ::check_index(i[k], extent, dimension, mode, error); }
  return place;
}
@MATHEMATICS@
//: erf_
#if defined(__AVX512F__) && !defined(__clang__) && @N@ == 16
// erf(x) / x is smooth: a polynomial for each of 16 parts of [0, 4), around places where it is nearly a f32. 1 ulp.
INLINE F32 erf_(F32 x) {
  const F32 centre = {0.112468719f, 0.3462677f, 0.598564148f, 0.844581604f, 1.09609222f, 1.34625244f, 1.59547424f, 1.84696198f,
    2.09501648f, 2.3445282f, 2.59480286f, 2.84450531f, 3.09848022f, 3.34872437f, 3.5959549f, 3.84590912f};
  const F32 c0 = {1.12363946f, 1.08485806f, 1.00695097f, 0.908953965f, 0.801834464f, 0.700518906f, 0.611699462f, 0.536556005f,
    0.475868076f, 0.426135093f, 0.385292113f, 0.351534754f, 0.322735071f, 0.298620522f, 0.278090149f, 0.260016531f};
  const F32 c1 = {-0.0839657709f, -0.242519796f, -0.364792198f, -0.421546608f, -0.421912253f, -0.383506685f, -0.327927411f, -0.27034682f,
    -0.220457792f, -0.179784134f, -0.147968188f, -0.123462319f, -0.1041345f, -0.0891698673f, -0.0773333982f, -0.0676084906f};
  const F32 c2 = {-0.367624521f, -0.300498784f, -0.179154024f, -0.0538046546f, 0.0455441177f, 0.100647628f, 0.117036298f, 0.109138183f,
    0.0912242606f, 0.0720563307f, 0.0556809828f, 0.043058265f, 0.0335318632f, 0.0266128015f, 0.02150294f, 0.0175788738f};
  const F32 c3 = {0.0500334539f, 0.135397717f, 0.174810067f, 0.156768933f, 0.103201874f, 0.0449530818f, 0.00229004514f, -0.0199541133f,
    -0.0262028072f, -0.0241560731f, -0.0193049423f, -0.0145224528f, -0.0106727509f, -0.00791484583f, -0.00597382709f, -0.00456957566f};
  const F32 c4 = {0.107313581f, 0.0693509281f, 0.00811321288f, -0.0405177586f, -0.0602468811f, -0.0525135808f, -0.0322845168f, -0.0129617164f,
    -0.00101192167f, 0.00411996804f, 0.00508922618f, 0.00434489176f, 0.00323983165f, 0.00231504859f, 0.00165107579f, 0.0011889626f};
  const F32 c5 = {-0.0196486935f, -0.0462671071f, -0.0464108065f, -0.0255754404f, -0.000657157449f, 0.0143864946f, 0.0169551205f, 0.0120989941f,
    0.00591788488f, 0.00167823303f, -0.000312210235f, -0.000862627872f, -0.000815734034f, -0.000613729993f, -0.000420141179f, -0.000310455944f};
  F32 a = absolute(x);
  I32 part = TO(I32, a * 4.f);
  F32 t = a - __builtin_shuffle(centre, part), p = __builtin_shuffle(c5, part);
  p = fused(p, t, __builtin_shuffle(c4, part));
  p = fused(p, t, __builtin_shuffle(c3, part));
  p = fused(p, t, __builtin_shuffle(c2, part));
  p = fused(p, t, __builtin_shuffle(c1, part));
  F32 first = __builtin_shuffle(c0, part), y = a * first, rest = fused(a, first, -y);
  y = y + fused(p, a * t, rest);
  return copysign_(select(a >= 3.84f, splat(F32{}, 1.f), y), x);
}
#else
INLINE F32 erf_(F32 x) { return erf_of_two_parts(x); }
#endif
//: sine where_near
// Of x, and `quarter` of a turn on; 0.75 ulp: what rounding takes from the angle, its square and 1 - square / 2 is added at the end.
// The turns, fewer than 2^16, are taken off in steps of which none loses anything (that `near` is a multiple of 2^-23 or so
// makes the second subtraction exact), or else in f64.
INLINE F32 sine(F32 x, i32 quarter) {
  F32 r, r_rest;
  I32 q;
  if constexpr (FUSES) {
    F32 shifted = fused(x, splat(F32{}, 0.636619772f), splat(F32{}, 12582912.f)), turns = shifted - 12582912.f;
    F32 near = fused(turns, splat(F32{}, -1.57079637f), x), step = turns * 4.37113883e-8f;
    r = near + step;
    r_rest = (step - (r - near)) + fused(turns, splat(F32{}, 1.71512489e-15f), fused(turns, splat(F32{}, 4.37113883e-8f), -step));
    q = (I32)shifted + quarter;
  } else {
    F64 wide = TO(F64, x);
    F64 turns = (wide * 0.63661977236758134 + 6755399441055744.) - 6755399441055744.;
    wide = (wide - turns * 1.57079632673412561417) - turns * 6.07710050650619224932e-11;
    r = TO(F32, wide), r_rest = TO(F32, wide - TO(F64, r));
    q = TO(I32, turns) + quarter;
  }
  F32 z = r * r, z_rest = fused(r + r, r_rest, fused(r, r, -z));
  F32 s = fused(fused(fused(splat(F32{}, 2.72438118e-6f), z, splat(F32{}, -1.98400391e-4f)), z, splat(F32{}, 8.33333179e-3f)), z, splat(F32{}, -0.166666667f)) * z;
  F32 c = fused(fused(fused(splat(F32{}, -2.72955056e-7f), z, splat(F32{}, 2.48005568e-5f)), z, splat(F32{}, -1.38888876e-3f)), z, splat(F32{}, 4.16666667e-2f));
  F32 half = splat(F32{}, -0.5f), one = splat(F32{}, 1.f), h = fused(z, half, one), h_rest = fused(z, half, one - h);
  s = r + fused(s, r, r_rest * h);
  c = h + fused(c, z * z, fused(z_rest, half, h_rest));
  F32 y = select((M)((q & 1) != 0), c, s);
  return (F32)((I32)y ^ ((q & 2) << 30));
}
// The lanes that are too far for that, or no numbers, by the C library.
INLINE F32 where_near(F32 y, F32 x, f32 (*library)(f32)) {
  M far = (M)!(absolute(x) < 1e5f);
  if (__builtin_expect(any_lane(far), 0)) for (int k = 0; k < N; k++) if (far[k]) y[k] = library(x[k]);
  return y;
}
//: sin_ / f32 F32
INLINE F32 sin_(F32 x) { return where_near(select((M)(x == 0.f), x, sine(x, 0)), x, sinf); }
//: cos_ / f32 F32
INLINE F32 cos_(F32 x) { return where_near(sine(x, 1), x, cosf); }
//: exp2_ / f32 F32
INLINE F32 exp2_(F32 x) {
  F32 t = at_least(at_most(x, 129.f), -151.f), n = (t + 12582912.f) - 12582912.f, r = t - n;
  F32 p = fused(fused(fused(fused(fused(splat(F32{}, 1.54531634e-4f), r, splat(F32{}, 1.33908633e-3f)), r, splat(F32{}, 9.61808302e-3f)), r, splat(F32{}, 5.55035695e-2f)), r, splat(F32{}, 0.240226507f)), r, splat(F32{}, 0.693147182f));
  return times_two_to(fused(p, r, splat(F32{}, 1.f)), n);
}
@DOUBLES@
@WIDE@
@ANGLES@
@RARE@
//:
//: fmod_ / f32 F32
// Exact: of fewer than 2^22 turns rounding is off by one at most. The others, and what has no remainder, are the C library's.
#define FMOD(V, T, FUSES) \
  INLINE V fmod_(V a, V b) { \
    V x = absolute(a), y = absolute(b), q = x / y, r = fused(-trunc_(q), y, x); \
    r = r < (T)0 ? r + y : r; \
    r = copysign_(r >= y ? r - y : r, a); \
    M near = compared(q < (T)4194304) & compared(y < (T)__builtin_inf()); \
    if (!FUSES || __builtin_expect(!all_lanes(near), 0)) for (int k = 0; k < N; k++) if (!FUSES || !near[k]) r[k] = ::fmod_(a[k], b[k]); \
    return r; \
  }
FMOD(F32, f32, FUSES)
//: fmod_ / f64 F64
FMOD(F64, f64, FUSES_F64)
//: remainder_ / f32 F32
#define REMAINDER(V, T) \
  INLINE V remainder_(V a, V b) { V m = fmod_(a, b); return (m != (T)0) & ((m < (T)0) != (b < (T)0)) ? m + b : m; }
REMAINDER(F32, f32)
//: remainder_ / f64 F64
REMAINDER(F64, f64)
//: floor_divide / f32 F32
// As Python: exact multiples stay exact where a / b would round up.
#define FLOOR_DIVIDE(V, T) \
  INLINE V floor_divide(V a, V b) { \
    V m = fmod_(a, b), q = a / b, d = (a - m) / b; \
    d = (m != (T)0) & ((m < (T)0) != (b < (T)0)) ? d - (T)1 : d; \
    V whole = floor_(d); \
    whole = d - whole > (T).5 ? whole + (T)1 : whole; \
    whole = d == (T)0 ? copysign_(V{}, q) : whole; \
    return b == (T)0 ? q : whole; \
  }
FLOOR_DIVIDE(F32, f32)
//: floor_divide / f64 F64
FLOOR_DIVIDE(F64, f64)
//:
#define LANEWISE(name, V) INLINE V name(V a, V b) { V r; for (int k = 0; k < N; k++) r[k] = ::name(a[k], b[k]); return r; }
//: floor_divide / i64 I64
LANEWISE(floor_divide, I64)
//: floor_divide / i32 I32
LANEWISE(floor_divide, I32)
//: floor_divide / i16 I16
LANEWISE(floor_divide, I16)
//: floor_divide / i8 I8
LANEWISE(floor_divide, I8)
//: floor_divide / u8 U8
LANEWISE(floor_divide, U8)
//: truncate_divide / f32 F32
LANEWISE(truncate_divide, F32)
//: truncate_divide / f64 F64
LANEWISE(truncate_divide, F64)
//: truncate_divide / i64 I64
LANEWISE(truncate_divide, I64)
//: truncate_divide / i32 I32
LANEWISE(truncate_divide, I32)
//: truncate_divide / i16 I16
LANEWISE(truncate_divide, I16)
//: truncate_divide / i8 I8
LANEWISE(truncate_divide, I8)
//: truncate_divide / u8 U8
LANEWISE(truncate_divide, U8)
//: remainder_ / i64 I64
LANEWISE(remainder_, I64)
//: remainder_ / i32 I32
LANEWISE(remainder_, I32)
//: remainder_ / i16 I16
LANEWISE(remainder_, I16)
//: remainder_ / i8 I8
LANEWISE(remainder_, I8)
//: remainder_ / u8 U8
LANEWISE(remainder_, U8)
//: fmod_ / i64 I64
LANEWISE(fmod_, I64)
//: fmod_ / i32 I32
LANEWISE(fmod_, I32)
//: fmod_ / i16 I16
LANEWISE(fmod_, I16)
//: fmod_ / i8 I8
LANEWISE(fmod_, I8)
//: fmod_ / u8 U8
LANEWISE(fmod_, U8)
//:
#undef LANEWISE
//: best_lane
template <class V> INLINE i32 best_lane(V best, I32 place, bool greatest) {
  auto value = best[0]; i32 at = place[0];
  for (int k = 1; k < N; k++) {
    auto v = best[k];
    mask better = greatest ? -(mask)(v > value) : -(mask)(v < value);
    if (v != v && value != value) better = -(mask)(place[k] < at);
    ::arg_best(value, at, v, place[k], better, -1);
  }
  return at;
}
//:
}
