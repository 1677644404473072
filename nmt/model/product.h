// Products of 32-bit matrices on AMX, the matrix unit of Intel's server processors since 2023, by one thread.
//
// The unit multiplies bfloat16 numbers and adds in 32 bits. So each number is taken as the sum of two of them, high and
// low, which together keep 16 of its 24 bits, and three of the four products are made:
//
//     a . b = high(a) . high(b) + high(a) . low(b) + low(a) . high(b)           (low . low is of the size of rounding)
//
// Factors are first laid out as the unit reads them, "packed", some columns and some depth at a time, so that what is
// read often stays in the near caches.

#pragma once

#if defined(__x86_64__) && defined(__linux__) && __GNUC__ >= 11
#define HAVE_TILES 1

#include <cpuid.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#define WITH_TILES __attribute__((target("avx512f,avx512bw,avx512bf16,amx-tile,amx-bf16")))

namespace tiles {

constexpr int64_t kSide = 16;              // rows of a tile, and its columns of 32 bits
constexpr int64_t kPairs = 2 * kSide;      // bfloat16 numbers in a row of a tile
constexpr int64_t kTile = kSide * kSide;   // units of 32 bits in a tile
constexpr int64_t kStep = 2 * kSide;       // rows and columns of a product that are made at a time: four tiles
constexpr int64_t kDeep = 512;             // depth that is packed at a time
constexpr int64_t kNear = 512;             // columns whose packed factors stay in the second cache
constexpr int64_t kFar = 4096;             // rows, and columns, that are packed at a time

// Element (i, j) is data[i * stride + j], or data[j * stride + i] if it is turned.
struct Matrix {
  const float* data;
  int64_t stride;
  bool turned;
};

// Whether this processor has the unit and the kernel lets this process use it, which it must be asked for.
inline bool allowed() {
  constexpr unsigned kTilesAndBfloat16 = 1u << 24 | 1u << 22, kBfloat16 = 1u << 5;
  constexpr long kAskForPermission = 0x1023, kTileData = 18;
  unsigned a, b, c, d, more;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kTilesAndBfloat16) != kTilesAndBfloat16) return false;
  if (!__get_cpuid_count(7, 1, &more, &b, &c, &d) || !(more & kBfloat16)) return false;
  return __builtin_cpu_supports("avx512bw") && syscall(SYS_arch_prctl, kAskForPermission, kTileData) == 0;
}

WITH_TILES inline __m512i as_bits(__m512bh numbers) {
  __m512i bits;
  std::memcpy(&bits, &numbers, sizeof bits);
  return bits;
}

// The numbers of `first`, then those of `second`: their high parts, and what these leave.
WITH_TILES inline void split(__m512 first, __m512 second, __m512i& high, __m512i& low) {
  high = as_bits(_mm512_cvtne2ps_pbh(second, first));
  const __m512i first_high = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(high));
  const __m512i second_high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(high, 1));
  const __m512 first_low = _mm512_sub_ps(first, _mm512_castsi512_ps(_mm512_slli_epi32(first_high, 16)));
  const __m512 second_low = _mm512_sub_ps(second, _mm512_castsi512_ps(_mm512_slli_epi32(second_high, 16)));
  low = as_bits(_mm512_cvtne2ps_pbh(second_low, first_low));
}

WITH_TILES inline void transpose(__m512i* r) {  // 16 by 16
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
      r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
    }
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 4; ++j) {
      t[i + j] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0x88);
      t[i + j + 4] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0xdd);
    }
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
  }
}

inline uint16_t first_of(int64_t count) { return count >= kSide ? 0xFFFF : (1u << std::max<int64_t>(count, 0)) - 1; }

// Two tiles, high and low, of 16 lines (rows of the left factor, columns of the right one) and 32 of the depth. A left
// tile has a row for each line, a right one a row for each pair of the depth. What is not there is zero.
WITH_TILES inline void pack_tile(const float* from, int64_t stride, bool along, bool left, int64_t lines, int64_t deep,
                                 uint32_t* to) {
  __m512i high[kSide], low[kSide];
  if (along) {  // the depth lies side by side in memory
    const __mmask16 early = first_of(deep), late = first_of(deep - kSide);
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) {
      const __mmask16 here = i < lines ? 0xFFFF : 0;
      const float* row = from + i * stride;
      split(_mm512_maskz_loadu_ps(early & here, row), _mm512_maskz_loadu_ps(late & here, row + kSide), high[i], low[i]);
    }
  } else {
    const __m512i pairs = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                           5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __mmask16 here = first_of(lines);
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) {
      const float* row = from + 2 * i * stride;
      split(_mm512_maskz_loadu_ps(2 * i < deep ? here : 0, row),
            _mm512_maskz_loadu_ps(2 * i + 1 < deep ? here : 0, row + stride), high[i], low[i]);
      high[i] = _mm512_permutexvar_epi16(pairs, high[i]);
      low[i] = _mm512_permutexvar_epi16(pairs, low[i]);
    }
  }
  if (along != left) transpose(high), transpose(low);
  for (int i = 0; i < kSide; ++i) {
    _mm512_store_si512(to + kSide * i, high[i]);
    _mm512_store_si512(to + kTile + kSide * i, low[i]);
  }
}

inline int64_t tiles_of(int64_t numbers, int64_t size) { return (numbers + size - 1) / size; }

// `lines` lines from `line` on, `deep` deep from `depth` on: for each 16 lines, their tiles one after the other.
WITH_TILES inline void pack(Matrix x, bool left, int64_t line, int64_t lines, int64_t depth, int64_t deep, uint32_t* to) {
  const bool along = x.turned != left;
  const int64_t wide = tiles_of(lines, kSide), far = tiles_of(deep, kPairs);
  for (int64_t n = 0; n < wide * far; ++n) {  // in the order in which they lie in memory
    const int64_t i = along ? n / far : n % wide, k = along ? n % far : n / wide;
    const int64_t first = line + kSide * i, deepest = depth + kPairs * k;
    const float* from = x.data + (along ? first * x.stride + deepest : deepest * x.stride + first);
    pack_tile(from, x.stride, along, left, std::min(kSide, lines - kSide * i), std::min(kPairs, deep - kPairs * k),
              to + 2 * kTile * (i * far + k));
  }
}

WITH_TILES inline void multiply_loaded() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// Four tiles of a product, 32 rows and columns: from two packed lines of each factor, added to what is there or not.
WITH_TILES inline void multiply_packed(const uint32_t* upper, const uint32_t* lower, const uint32_t* left,
                                       const uint32_t* right, int64_t deep, float* to, int64_t stride, bool add) {
  asm volatile("" ::: "memory");  // what was packed is in memory now: compilers do not know that tiles are read from it
  const int64_t bytes = stride * sizeof(float);
  float* below = to + kSide * stride;
  if (add) {
    _tile_loadd(0, to, bytes);
    _tile_loadd(1, to + kSide, bytes);
    _tile_loadd(2, below, bytes);
    _tile_loadd(3, below + kSide, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t k = 0; k < deep; ++k) {
    _tile_loadd(4, upper + kTile, 4 * kSide);  // low times high
    _tile_loadd(5, lower + kTile, 4 * kSide);
    _tile_loadd(6, left, 4 * kSide);
    _tile_loadd(7, right, 4 * kSide);
    multiply_loaded();
    _tile_loadd(4, upper, 4 * kSide);  // high times high
    _tile_loadd(5, lower, 4 * kSide);
    multiply_loaded();
    _tile_loadd(6, left + kTile, 4 * kSide);  // high times low
    _tile_loadd(7, right + kTile, 4 * kSide);
    multiply_loaded();
    upper += 2 * kTile, lower += 2 * kTile, left += 2 * kTile, right += 2 * kTile;
  }
  _tile_stored(0, to, bytes);
  _tile_stored(1, to + kSide, bytes);
  _tile_stored(2, below, bytes);
  _tile_stored(3, below + kSide, bytes);
}

// How the unit is set: eight tiles, all whole. A constant, since compilers do not know that all of it is read.
struct alignas(64) Setting {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Room for what is packed of one factor; each thread has its own, for good. Large pages spare the look-up of small ones.
struct Room {
  static constexpr size_t kSize = kFar * kDeep * sizeof(uint32_t);
  uint32_t* start = static_cast<uint32_t*>(std::aligned_alloc(1 << 21, kSize));
  Room() {
    if (!start) throw std::bad_alloc();
    madvise(start, kSize, MADV_HUGEPAGE);
  }
  ~Room() { std::free(start); }
};

// c [rows, columns] = a [rows, depth] . b [depth, columns]
WITH_TILES inline void multiply(Matrix a, Matrix b, int64_t rows, int64_t columns, int64_t depth, float* c) {
  static constexpr Setting all_whole;
  static thread_local Room left_room, right_room;
  uint32_t *const left = left_room.start, *const right = right_room.start;
  alignas(64) float edge[kStep * kStep];
  if (depth == 0) std::fill(c, c + rows * columns, 0.0f);
  _tile_loadconfig(&all_whole);
  for (int64_t column = 0; column < columns; column += kFar)
    for (int64_t row = 0; row < rows; row += kFar)
      for (int64_t from = 0; from < depth; from += kDeep) {
        const int64_t high = std::min(kFar, rows - row), wide = std::min(kFar, columns - column);
        const int64_t deep = std::min(kDeep, depth - from), steps = tiles_of(deep, kPairs), line = 2 * kTile * steps;
        pack(a, true, row, high, from, deep, left);
        pack(b, false, column, wide, from, deep, right);
        for (int64_t near = 0; near < wide; near += kNear)
          for (int64_t i = 0; i < high; i += kStep)
            for (int64_t j = near; j < std::min(near + kNear, wide); j += kStep) {
              const uint32_t *upper = left + i / kSide * line, *lower = i + kSide < high ? upper + line : upper;
              const uint32_t *west = right + j / kSide * line, *east = j + kSide < wide ? west + line : west;
              float* to = c + (row + i) * columns + column + j;
              const int64_t tall = std::min(kStep, high - i), broad = std::min(kStep, wide - j);
              if (tall == kStep && broad == kStep) {
                multiply_packed(upper, lower, west, east, steps, to, columns, from > 0);
                continue;
              }
              for (int64_t r = 0; from > 0 && r < tall; ++r) std::copy_n(to + r * columns, broad, edge + kStep * r);
              multiply_packed(upper, lower, west, east, steps, edge, kStep, from > 0);
              for (int64_t r = 0; r < tall; ++r) std::copy_n(edge + kStep * r, broad, to + r * columns);
            }
      }
  _tile_release();
}

}  // namespace tiles

#endif
