// What the kernels share: bfloat16 as the numbers it stands for, and one version of a loop per kind of processor.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

namespace {

// A bfloat16 is the upper half of a float.
inline float widened(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The nearest there is, of two the even one.
inline uint16_t narrowed(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return value != value ? 0x7FC0 : (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
}

}  // namespace
