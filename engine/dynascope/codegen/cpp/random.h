// Philox 4x32-10, one element at a time and @N@ lanes at a time. The recipe is that of `random` in loops/operations.py.
#ifndef RANDOM_SCALAR
#define RANDOM_SCALAR
typedef unsigned long u64;
INLINE f32 unit(u32 word) { return (f32)(i32)(word >> 8) * 0x1p-24f; }
INLINE f32 random_(i64 seed, i64 offset, i64 index) {
  u32 a = (u32)(index >> 2), b = (u32)(index >> 34), c = (u32)offset, d = (u32)(offset >> 32);
  u32 key = (u32)seed, high = (u32)(seed >> 32);
  for (int round = 0; round < 10; round++, key += 0x9E3779B9u, high += 0xBB67AE85u) {
    u64 p = (u64)a * 0xD2511F53u, q = (u64)c * 0xCD9E8D57u;
    a = (u32)(q >> 32) ^ b ^ key; b = (u32)q;
    c = (u32)(p >> 32) ^ d ^ high; d = (u32)p;
  }
  u32 words[4] = {a, b, c, d};
  return unit(words[index & 3]);
}
#endif
namespace v@N@ {
INLINE F32 random_(i64 seed, i64 offset, I64 index) {
  F32 r; for (int k = 0; k < N; k++) r[k] = ::random_(seed, offset, index[k]); return r;
}
#if @N@ >= 4
enum { BLOCKS = N / 4 };
typedef u64 W __attribute__((vector_size(BLOCKS * 8)));
// Products of the low 32 bits, and the high 32 bits moved down, by instructions that run on different ports.
#if defined(__AVX2__) && !defined(__clang__) && @N@ == 16
typedef int P __attribute__((vector_size(32)));
INLINE W product(W x, u64 y) { return (W)__builtin_ia32_pmuludq256((P)x, (P)(W{} + y)); }
INLINE W high_half(W x) { return (W)__builtin_shuffle((P)x, (P){1, 1, 3, 3, 5, 5, 7, 7}); }
#elif defined(__SSE2__) && !defined(__clang__) && @N@ == 8
typedef int P __attribute__((vector_size(16)));
INLINE W product(W x, u64 y) { return (W)__builtin_ia32_pmuludq128((P)x, (P)(W{} + y)); }
INLINE W high_half(W x) { return (W)__builtin_shuffle((P)x, (P){1, 1, 3, 3}); }
#else
INLINE W product(W x, u64 y) { return (x & 0xffffffff) * y; }
INLINE W high_half(W x) { return x >> 32; }
#endif
// Blocks' first two words and last two words, as four words a block.
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector) && (@N@ == 16 || @N@ == 8)
#define SHUFFLES
#endif
#endif
#if defined(SHUFFLES) && @N@ == 16
INLINE U32 side_by_side(W x, W y) { return (U32)__builtin_shufflevector(x, y, 0, 4, 1, 5, 2, 6, 3, 7); }
#elif defined(SHUFFLES)
INLINE U32 side_by_side(W x, W y) { return (U32)__builtin_shufflevector(x, y, 0, 2, 1, 3); }
#else
INLINE U32 side_by_side(W x, W y) {
  u64 pairs[N / 2]; for (int k = 0; k < BLOCKS; k++) { pairs[2 * k] = x[k]; pairs[2 * k + 1] = y[k]; }
  U32 all; __builtin_memcpy(&all, pairs, sizeof all); return all;
}
#endif
#undef SHUFFLES
// N neighbours from `first` on. Where they start on a multiple of four, each Philox call serves four of them.
// The high halves of a, b, c and d hold rubbish between rounds: products read the low halves alone.
INLINE F32 random_run(i64 seed, i64 offset, i64 first) {
  if (__builtin_expect(first & 3, 0)) {
    F32 r; for (int k = 0; k < N; k++) r[k] = ::random_(seed, offset, first + k); return r;
  }
  W place; for (int k = 0; k < BLOCKS; k++) place[k] = k;
  W block = place + (u64)(first >> 2);
  W a = block, b = block >> 32, c = W{} + (u64)offset, d = W{} + (u64)(offset >> 32);
  u32 key = (u32)seed, high = (u32)(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++, key += 0x9E3779B9u, high += 0xBB67AE85u) {
    W p = product(a, 0xD2511F53u), q = product(c, 0xCD9E8D57u);
    a = high_half(q) ^ b ^ key; b = q;
    c = high_half(p) ^ d ^ high; d = p;
  }
  U32 all = side_by_side((a & 0xffffffff) | (b << 32), (c & 0xffffffff) | (d << 32));
  return TO(F32, (I32)(all >> 8)) * 0x1p-24f;
}
#else
INLINE F32 random_run(i64 seed, i64 offset, i64 first) {
  F32 r; for (int k = 0; k < N; k++) r[k] = ::random_(seed, offset, first + k); return r;
}
#endif
}
