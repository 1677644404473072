// The softmax of the loss for CPUs: logits in, shares out in the same place, a row or two in the cache at a time.
//
// The gradient of R-Drop (see nmt/model/loss.py), which takes TensorFlow ten passes over all logits, is made on the way.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "numbers.h"

namespace {

// e^x for x <= 0, to the last bit or two; what is no number stays none. Of the power of two next to x the exponent is
// set, and the rest, within half a power, is Taylor's series.
inline float power(float x) {
  x = x < -87.0f ? -87.0f : x;  // below, a float has no full precision; as written, so that NaN passes
  const float shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits - 0x4B400000u + 127u) << 23;
  float two;
  std::memcpy(&two, &bits, sizeof two);
  const float whole = shifted - 12582912.0f;
  const float r = x - whole * 0.693359375f + whole * 2.12194440e-4f;  // ln 2 in two parts, the first of few bits
  const float series = 1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r / 720)))));
  return series * two;
}

// A row as 32-bit floats; returns the largest.
FOR_EACH_PROCESSOR float widen(const float* z, int64_t count, float* row) {
  float most = -INFINITY;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < count; ++i) row[i] = z[i], most = row[i] > most ? row[i] : most;
  return most;
}

FOR_EACH_PROCESSOR float widen(const uint16_t* z, int64_t count, float* row) {
  float most = -INFINITY;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < count; ++i) row[i] = widened(z[i]), most = row[i] > most ? row[i] : most;
  return most;
}

// e to each, less `most`; returns their sum.
FOR_EACH_PROCESSOR float raise(float* row, int64_t count, float most) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += row[i] = power(row[i] - most);
  return sum;
}

FOR_EACH_PROCESSOR void put(const float* row, float factor, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = row[i] * factor;
}

FOR_EACH_PROCESSOR void put(const float* row, float factor, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = narrowed(row[i] * factor);
}

// The sum of row * (ratio - shift).
FOR_EACH_PROCESSOR float along(const float* row, const float* ratio, float shift, int64_t count) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += row[i] * (ratio[i] - shift);
  return sum;
}

FOR_EACH_PROCESSOR void subtract(const float* a, const float* b, int64_t count, float* difference) {
  for (int64_t i = 0; i < count; ++i) difference[i] = a[i] - b[i];
}

// In place of p and q, the gradients of logsumexp and of R-Drop's divergence; `ratio` less `shift` is log p/q.
FOR_EACH_PROCESSOR void pull(float* p, float* q, const float* ratio, float shift, float factor, float from_p,
                             float from_q, int64_t count) {
  const float p0 = 1.0f + factor * (1.0f - from_p), q0 = 1.0f + factor * (1.0f - from_q);
  for (int64_t i = 0; i < count; ++i) {
    const float apart = factor * (ratio[i] - shift), left = p[i], right = q[i];
    p[i] = left * (p0 + apart) - factor * right;
    q[i] = right * (q0 - apart) - factor * left;
  }
}

template <class T>
class Softmax {
 public:
  Softmax(int64_t vocabulary, float scale) : count_(vocabulary), scale_(scale), rows_(3 * vocabulary) {}

  // One row; `right` is the label's logit, `nll` how much less that is than logsumexp.
  void one(const T* z, int64_t label, T* out, float* nll, float* right) {
    float* row = rows_.data();
    const float most = widen(z, count_, row);
    *right = row[label];
    const float sum = raise(row, count_, most);
    *nll = most + std::log(sum) - *right;
    put(row, scale_ / sum, count_, out);
  }

  // Two readings of one token, and `factor` times the divergence of each from the other.
  void two(const T* z, const int32_t* labels, float factor, T* out, float* nll, float* right, float* divergence) {
    float *p = rows_.data(), *q = p + count_, *ratio = q + count_;
    const float most[] = {widen(z, count_, p), widen(z + count_, count_, q)};
    subtract(p, q, count_, ratio);
    float shift = 0.0f;
    for (int i = 0; i < 2; ++i) {
      float* row = i ? q : p;
      right[i] = row[labels[i]];
      const float sum = raise(row, count_, most[i]), total = most[i] + std::log(sum);
      nll[i] = total - right[i];
      shift += i ? -total : total;
      put(row, 1.0f / sum, count_, row);
    }
    const float from_p = along(p, ratio, shift, count_), from_q = -along(q, ratio, shift, count_);
    divergence[0] = factor * from_p, divergence[1] = factor * from_q;
    pull(p, q, ratio, shift, factor, from_p, from_q, count_);
    put(p, scale_, count_, out);
    put(q, scale_, count_, out + count_);
  }

 private:
  int64_t count_;
  float scale_;
  std::vector<float> rows_;
};

}  // namespace
