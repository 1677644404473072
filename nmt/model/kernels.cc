// Dropout, layer normalisation and the softmax of the loss for CPUs, each in one pass over the numbers where TensorFlow's
// operations take many; and matrix products, on processors with a unit for them.
//
// Written against TensorFlow's C interface, so it compiles in seconds and suits any build of that TensorFlow. A kernel
// uses one thread: a lane has no more (see nmt/training/step.py).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

#include "numbers.h"
#include "product.h"
#include "softmax.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr int kCounters = 32;  // of Philox, worked on together
constexpr int kLevels = 8;     // random numbers of 16 bits that each counter gives
constexpr int kBlock = kCounters * kLevels;
constexpr uint32_t kFactor0 = 0xD2511F53, kFactor1 = 0xCD9E8D57, kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;

// Philox4x32-10 (Salmon et al. 2011) for the counters {at, stream}, {at + 1, stream} ..., as TensorFlow lays them out.
void philox(uint64_t key, uint64_t at, uint64_t stream, uint32_t* out) {
  for (int i = 0; i < kCounters; ++i, ++at, out += 4) {
    uint32_t c0 = at, c1 = at >> 32, c2 = stream, c3 = stream >> 32, k0 = key, k1 = key >> 32;
    for (int round = 0; round < 10; ++round, k0 += kStep0, k1 += kStep1) {
      const uint64_t first = uint64_t{kFactor0} * c0, second = uint64_t{kFactor1} * c2;
      c0 = static_cast<uint32_t>(second >> 32) ^ c1 ^ k0;
      c1 = second;
      c2 = static_cast<uint32_t>(first >> 32) ^ c3 ^ k1;
      c3 = first;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
  }
}

#if defined(__x86_64__) && !defined(PORTABLE)
// The same, 8 counters to a register: each in the lower half of 64 bits, whatever is left in the upper half.
__attribute__((target("avx512f"))) void philox_wide(uint64_t key, uint64_t at, uint64_t stream, uint32_t* out) {
  constexpr int kGroups = kCounters / 8;
  const __m512i factor0 = _mm512_set1_epi64(kFactor0), factor1 = _mm512_set1_epi64(kFactor1);
  const __m512i low = _mm512_set1_epi64(0xFFFFFFFF);
  __m512i c0[kGroups], c1[kGroups], c2[kGroups], c3[kGroups];
  for (int g = 0; g < kGroups; ++g) {
    c0[g] = _mm512_add_epi64(_mm512_set1_epi64(at + 8 * g), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    c1[g] = _mm512_srli_epi64(c0[g], 32);
    c2[g] = _mm512_set1_epi64(stream);
    c3[g] = _mm512_set1_epi64(stream >> 32);
  }
  uint32_t k0 = key, k1 = key >> 32;
  for (int round = 0; round < 10; ++round, k0 += kStep0, k1 += kStep1) {
    const __m512i key0 = _mm512_set1_epi64(k0), key1 = _mm512_set1_epi64(k1);
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      const __m512i first = _mm512_mul_epu32(c0[g], factor0), second = _mm512_mul_epu32(c2[g], factor1);
      c0[g] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(second, 32), c1[g], key0, 0x96);  // a ^ b ^ c
      c1[g] = second;
      c2[g] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(first, 32), c3[g], key1, 0x96);
      c3[g] = first;
    }
  }
  for (int g = 0; g < kGroups; ++g) {
    const __m512i left = _mm512_or_epi64(_mm512_and_epi64(c0[g], low), _mm512_slli_epi64(c1[g], 32));
    const __m512i right = _mm512_or_epi64(_mm512_and_epi64(c2[g], low), _mm512_slli_epi64(c3[g], 32));
    const __m512i early = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0), late = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    _mm512_storeu_si512(out + 32 * g, _mm512_permutex2var_epi64(left, early, right));
    _mm512_storeu_si512(out + 32 * g + 16, _mm512_permutex2var_epi64(left, late, right));
  }
}
const auto draw = (__builtin_cpu_init(), __builtin_cpu_supports("avx512f")) ? philox_wide : philox;
#else
const auto draw = philox;
#endif

FOR_EACH_PROCESSOR void keep(const float* x, const uint16_t* levels, int dropped, float scale, int count, float* y) {
  for (int i = 0; i < count; ++i) y[i] = x[i] * (levels[i] >= dropped ? scale : 0.0f);
}

FOR_EACH_PROCESSOR void keep(const uint16_t* x, const uint16_t* levels, int dropped, float scale, int count,
                             uint16_t* y) {
  for (int i = 0; i < count; ++i) y[i] = narrowed(widened(x[i]) * (levels[i] >= dropped ? scale : 0.0f));
}

// Rows are drawn each from a counter of its own on, so that a part of a batch draws what the whole would.
template <class T>
void drop(const T* x, int64_t rows, int64_t row, uint64_t key, uint64_t stream, uint64_t first, int dropped, T* y) {
  alignas(64) uint32_t drawn[4 * kCounters];
  uint16_t levels[kBlock];
  const float exact = static_cast<float>(65536.0 / (65536 - dropped));
  const float scale = sizeof(T) == sizeof(float) ? exact : widened(narrowed(exact));
  const uint64_t counters = (row + kLevels - 1) / kLevels;
  // Where rows end with a counter they are one long row.
  const bool even = row % kLevels == 0;
  const int64_t length = even ? rows * row : row;
  for (int64_t r = 0; r < (even ? 1 : rows); ++r) {
    uint64_t at = (first + r) * counters;
    for (int64_t i = 0; i < length; i += kBlock, at += kCounters) {
      draw(key, at, stream, drawn);
      std::memcpy(levels, drawn, sizeof levels);
      const int64_t place = r * row + i;
      keep(x + place, levels, dropped, scale, static_cast<int>(std::min<int64_t>(kBlock, length - i)), y + place);
    }
  }
}

FOR_EACH_PROCESSOR void normalise(const float* x, const float* scale, const float* bias, int64_t rows, int64_t width,
                                  float epsilon, float* y, float* means, float* inverses) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) sum += x[i];
    const float mean = sum / static_cast<float>(width);
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(width) + epsilon);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
    means[r] = mean;
    inverses[r] = inverse;
  }
}

FOR_EACH_PROCESSOR void normalise_back(const float* dy, const float* x, const float* means, const float* inverses,
                                       const float* scale, int64_t rows, int64_t width, float* dx, float* dscale,
                                       float* dbias) {
  std::fill(dscale, dscale + width, 0.0f);
  std::fill(dbias, dbias + width, 0.0f);
  for (int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    const float mean = means[r], inverse = inverses[r];
    float sum = 0.0f, along = 0.0f;
#pragma omp simd reduction(+ : sum, along)
    for (int64_t i = 0; i < width; ++i) {
      const float normal = (x[i] - mean) * inverse, dnormal = dy[i] * scale[i];
      sum += dnormal;
      along += dnormal * normal;
      dscale[i] += dy[i] * normal;
      dbias[i] += dy[i];
    }
    sum /= static_cast<float>(width);
    along /= static_cast<float>(width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float normal = (x[i] - mean) * inverse;
      dx[i] = inverse * (dy[i] * scale[i] - sum - normal * along);
    }
  }
}

// From here on: how TensorFlow hands tensors in and takes them back.

struct Call {
  TF_OpKernelContext* context;
  TF_Status* status = TF_NewStatus();
  TF_Tensor* held[8] = {};
  int count = 0;

  explicit Call(TF_OpKernelContext* given) : context(given) {}
  ~Call() {
    for (int i = 0; i < count; ++i) TF_DeleteTensor(held[i]);
    TF_DeleteStatus(status);
  }
  bool fine() {
    if (TF_GetCode(status) == TF_OK) return true;
    TF_OpKernelContext_Failure(context, status);
    return false;
  }
  const TF_Tensor* input(int index) {
    TF_GetInput(context, index, &held[count], status);
    return fine() ? held[count++] : nullptr;
  }
  // An input that becomes the first output where nobody else needs it; else `values` is a place of its own.
  template <class T>
  const TF_Tensor* input_as_output(int index, T** values) {
    TF_Tensor* seen = nullptr;
    TF_GetInput(context, index, &seen, status);
    if (!fine()) return nullptr;
    int64_t sizes[8];
    const int rank = std::min(TF_NumDims(seen), 8);
    for (int i = 0; i < rank; ++i) sizes[i] = TF_Dim(seen, i);
    TF_DeleteTensor(seen);  // one more holder, and it could not be taken over
    int taken;
    held[count] = TF_ForwardInputOrAllocateOutput(context, &index, 1, 0, sizes, rank, &taken, status);
    if (!fine()) return nullptr;
    *values = static_cast<T*>(TF_TensorData(held[count]));
    return taken == index ? held[count++] : (++count, input(index));
  }
  template <class T>
  bool output(int index, const int64_t* sizes, int rank, T** values) {  // of no size, they may be nowhere
    int64_t total = sizeof(T);
    for (int i = 0; i < rank; ++i) total *= sizes[i];
    const TF_DataType type = sizeof(T) == sizeof(float) ? TF_FLOAT : TF_BFLOAT16;
    held[count] = TF_AllocateOutput(context, index, type, sizes, rank, total, status);
    if (!fine()) return false;
    *values = static_cast<T*>(TF_TensorData(held[count++]));
    return true;
  }
};

template <class T>
const T* data(const TF_Tensor* tensor) {
  return static_cast<const T*>(TF_TensorData(tensor));
}

struct Shape {
  int64_t sizes[8];
  int rank;
  int64_t count = 1;

  explicit Shape(const TF_Tensor* tensor) : rank(std::min(TF_NumDims(tensor), 8)) {
    for (int i = 0; i < rank; ++i) count *= sizes[i] = TF_Dim(tensor, i);
  }
};

struct DropSettings {
  int64_t stream, dropped;
};

void* drop_create(TF_OpKernelConstruction* construction) {
  auto* settings = new DropSettings{};
  TF_Status* status = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrInt64(construction, "stream", &settings->stream, status);
  if (TF_GetCode(status) == TF_OK)
    TF_OpKernelConstruction_GetAttrInt64(construction, "dropped", &settings->dropped, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction, status);
  TF_DeleteStatus(status);
  return settings;
}

void drop_delete(void* settings) { delete static_cast<DropSettings*>(settings); }

template <class T>
void drop_compute(void* given, TF_OpKernelContext* context) {
  const auto* settings = static_cast<DropSettings*>(given);
  Call call(context);
  const TF_Tensor *x = call.input(0), *key = call.input(1), *first = call.input(2);
  if (!x || !key || !first) return;
  const Shape shape(x);
  T* y;
  if (!call.output(0, shape.sizes, shape.rank, &y) || shape.count == 0) return;
  drop(data<T>(x), shape.sizes[0], shape.count / shape.sizes[0], *data<uint64_t>(key), settings->stream,
       *data<uint64_t>(first), static_cast<int>(settings->dropped), y);
}

// The one setting of an operation, a float.
void* float_create(TF_OpKernelConstruction* construction, const char* name) {
  auto* value = new float{};
  TF_Status* status = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrFloat(construction, name, value, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction, status);
  TF_DeleteStatus(status);
  return value;
}

void float_delete(void* value) { delete static_cast<float*>(value); }

void* norm_create(TF_OpKernelConstruction* construction) { return float_create(construction, "epsilon"); }

void norm_compute(void* epsilon, TF_OpKernelContext* context) {
  Call call(context);
  const TF_Tensor *x = call.input(0), *scale = call.input(1), *bias = call.input(2);
  if (!x || !scale || !bias) return;
  const Shape shape(x);
  const int64_t width = shape.sizes[shape.rank - 1], rows = shape.count / width;
  float *y, *means, *inverses;
  if (!call.output(0, shape.sizes, shape.rank, &y) || !call.output(1, &rows, 1, &means)) return;
  if (!call.output(2, &rows, 1, &inverses)) return;
  normalise(data<float>(x), data<float>(scale), data<float>(bias), rows, width, *static_cast<float*>(epsilon), y, means,
            inverses);
}

void norm_gradient_compute(void*, TF_OpKernelContext* context) {
  Call call(context);
  const TF_Tensor *dy = call.input(0), *x = call.input(1), *means = call.input(2), *inverses = call.input(3);
  const TF_Tensor* scale = call.input(4);
  if (!dy || !x || !means || !inverses || !scale) return;
  const Shape shape(x);
  const int64_t width = shape.sizes[shape.rank - 1];
  float *dx, *dscale, *dbias;
  if (!call.output(0, shape.sizes, shape.rank, &dx) || !call.output(1, &width, 1, &dscale)) return;
  if (!call.output(2, &width, 1, &dbias)) return;
  normalise_back(data<float>(dy), data<float>(x), data<float>(means), data<float>(inverses), data<float>(scale),
                 shape.count / width, width, dx, dscale, dbias);
}

void* softmax_create(TF_OpKernelConstruction* construction) { return float_create(construction, "apart"); }

template <class T>
void softmax_compute(void* apart, TF_OpKernelContext* context) {
  Call call(context);
  const TF_Tensor *labels = call.input(1), *scale = call.input(2);
  T* out;
  const TF_Tensor* z = call.input_as_output(0, &out);  // before anybody else holds the logits
  if (!labels || !scale || !z) return;
  const float factor = *static_cast<float*>(apart);
  const Shape shape(z);
  const int64_t rows = shape.rank ? shape.sizes[0] : 0, size = rows ? shape.count / rows : 0;
  const auto* label = data<int32_t>(labels);
  if (shape.rank != 2 || Shape(labels).count != rows || (factor != 0.0f && rows % 2) ||
      std::any_of(label, label + rows, [size](int32_t l) { return l < 0 || l >= size; })) {
    TF_SetStatus(call.status, TF_INVALID_ARGUMENT, "a softmax needs a row of logits for each label, and R-Drop two");
    call.fine();
    return;
  }
  float *nll, *right, *divergence;
  if (!call.output(1, &rows, 1, &nll) || !call.output(2, &rows, 1, &right)) return;
  if (!call.output(3, &rows, 1, &divergence)) return;
  std::fill(divergence, divergence + rows, 0.0f);
  Softmax<T> softmax(size, *data<float>(scale));
  const T* logits = data<T>(z);
  for (int64_t r = 0; r < rows; r += factor != 0.0f ? 2 : 1) {
    const int64_t at = r * size;
    if (factor != 0.0f)
      softmax.two(logits + at, label + r, factor, out + at, nll + r, right + r, divergence + r);
    else
      softmax.one(logits + at, label[r], out + at, nll + r, right + r);
  }
}

#if HAVE_TILES
template <bool kTurnA, bool kTurnB>
void product_compute(void*, TF_OpKernelContext* context) {
  Call call(context);
  const TF_Tensor *a = call.input(0), *b = call.input(1);
  if (!a || !b) return;
  const Shape left(a), right(b);
  if (left.rank != 2 || right.rank != 2 || left.sizes[!kTurnA] != right.sizes[kTurnB]) {
    TF_SetStatus(call.status, TF_INVALID_ARGUMENT, "a product needs two matrices that are as deep as each other");
    call.fine();
    return;
  }
  const int64_t sizes[] = {left.sizes[kTurnA], right.sizes[!kTurnB]};
  float* c;
  if (!call.output(0, sizes, 2, &c) || sizes[0] * sizes[1] == 0) return;
  try {
    tiles::multiply({data<float>(a), left.sizes[1], kTurnA}, {data<float>(b), right.sizes[1], kTurnB}, sizes[0], sizes[1],
                    left.sizes[!kTurnA], c);
  } catch (const std::bad_alloc&) {
    TF_SetStatus(call.status, TF_RESOURCE_EXHAUSTED, "no memory for the factors of a product");
    call.fine();
  }
}

// The rows of the one factor and the columns of the other.
template <bool kTurnA, bool kTurnB>
void product_shape(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle *rows = TF_NewShapeHandle(), *columns = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(context, 0, rows, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextGetInput(context, 1, columns, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSubshape(context, rows, kTurnA, kTurnA + 1, rows, status);
  if (TF_GetCode(status) == TF_OK)
    TF_ShapeInferenceContextSubshape(context, columns, !kTurnB, !kTurnB + 1, columns, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextConcatenateShapes(context, rows, columns, rows, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(context, 0, rows, status);
  TF_DeleteShapeHandle(rows);
  TF_DeleteShapeHandle(columns);
}
#endif

// The first output has the shape of the first input; of the others nobody asks.
void shape_of_first(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeInferenceContextSetUnknownShape(context, status);
  TF_ShapeHandle* shape = TF_NewShapeHandle();
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextGetInput(context, 0, shape, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(context, 0, shape, status);
  TF_DeleteShapeHandle(shape);
}

struct Operation {
  const char* name;
  const char* inputs[5];
  const char* outputs[4];
  const char* attributes[2];
  void* (*create)(TF_OpKernelConstruction*);
  void (*compute)(void*, TF_OpKernelContext*);
  void (*remove)(void*);
  void (*shape)(TF_ShapeInferenceContext*, TF_Status*) = shape_of_first;
};

const Operation kOperations[] = {
    {"WmtflowDrop", {"x: float", "key: uint64", "first: uint64"}, {"y: float"}, {"stream: int", "dropped: int"},
     drop_create, drop_compute<float>, drop_delete},
    {"WmtflowDropShort", {"x: bfloat16", "key: uint64", "first: uint64"}, {"y: bfloat16"},
     {"stream: int", "dropped: int"}, drop_create, drop_compute<uint16_t>, drop_delete},
    {"WmtflowNorm", {"x: float", "scale: float", "bias: float"}, {"y: float", "means: float", "inverses: float"},
     {"epsilon: float"}, norm_create, norm_compute, float_delete},
    {"WmtflowNormGradient", {"dy: float", "x: float", "means: float", "inverses: float", "scale: float"},
     {"dx: float", "dscale: float", "dbias: float"}, {}, nullptr, norm_gradient_compute, nullptr},
    {"WmtflowSoftmax", {"z: float", "labels: int32", "scale: float"},
     {"shares: float", "nll: float", "right: float", "divergence: float"}, {"apart: float"}, softmax_create,
     softmax_compute<float>, float_delete},
    {"WmtflowSoftmaxShort", {"z: bfloat16", "labels: int32", "scale: float"},
     {"shares: bfloat16", "nll: float", "right: float", "divergence: float"}, {"apart: float"}, softmax_create,
     softmax_compute<uint16_t>, float_delete},
#if HAVE_TILES
    {"WmtflowProduct", {"a: float", "b: float"}, {"c: float"}, {}, nullptr, product_compute<false, false>, nullptr,
     product_shape<false, false>},
    {"WmtflowProductTurnA", {"a: float", "b: float"}, {"c: float"}, {}, nullptr, product_compute<true, false>, nullptr,
     product_shape<true, false>},
    {"WmtflowProductTurnB", {"a: float", "b: float"}, {"c: float"}, {}, nullptr, product_compute<false, true>, nullptr,
     product_shape<false, true>},
#endif
};

__attribute__((constructor)) void register_all() {
  for (const Operation& operation : kOperations) {
    TF_Status* status = TF_NewStatus();
    TF_OpDefinitionBuilder* definition = TF_NewOpDefinitionBuilder(operation.name);
    for (const char* text : operation.attributes) if (text) TF_OpDefinitionBuilderAddAttr(definition, text);
    for (const char* text : operation.inputs) if (text) TF_OpDefinitionBuilderAddInput(definition, text);
    for (const char* text : operation.outputs) if (text) TF_OpDefinitionBuilderAddOutput(definition, text);
    TF_OpDefinitionBuilderSetShapeInferenceFunction(definition, operation.shape);
    TF_RegisterOpDefinition(definition, status);
    TF_KernelBuilder* kernel =
        TF_NewKernelBuilder(operation.name, "CPU", operation.create, operation.compute, operation.remove);
    TF_RegisterKernelBuilder(operation.name, kernel, status);
    TF_DeleteStatus(status);
  }
}

}  // namespace

// Whether products can be made here: 1 or 0. To ask is to be permitted, where they can.
extern "C" int wmtflow_may_use_tiles() {
#if HAVE_TILES
  return tiles::allowed() ? 1 : 0;
#else
  return 0;
#endif
}
