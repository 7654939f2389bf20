#ifndef KERNELS_GEMM_H_
#define KERNELS_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/bfloat16.h"

namespace capstan {

class CpuStream;
class CudaStream;

// Sizes of a matrix product: op(A) is [m, k], op(B) is [k, n] and C is [m, n]; op transposes when
// the flag says so. A transposed A is stored as [k, m], a transposed B as [n, k].
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool is_a_transposed = false;
  bool is_b_transposed = false;
};

// How factors are rounded before they are multiplied; sums are float32.
enum class MatrixPrecision {
  kFloat32,  // not at all
  kTf32,     // to 10 bits of mantissa where the device is faster so; the CPU does not round
};

// C = alpha * op(A) * op(B) + beta * C, all row-major and without gaps. When `beta` is 0, C is
// written without being read. C overlaps neither A nor B. INVALID_ARGUMENT for a size that is not
// from 0 to 2^31 - 1. A CudaStream must have a cuBLAS handle.
absl::Status Gemm(const GemmShape& shape, MatrixPrecision precision, float alpha, const float* a,
                  const float* b, float beta, float* c, CpuStream& stream);
absl::Status Gemm(const GemmShape& shape, MatrixPrecision precision, float alpha, const float* a,
                  const float* b, float beta, float* c, CudaStream& stream);

// The same of bfloat16 factors: products and sums are float32.
absl::Status Gemm(const GemmShape& shape, float alpha, const Bfloat16* a, const Bfloat16* b,
                  float beta, float* c, CpuStream& stream);
absl::Status Gemm(const GemmShape& shape, float alpha, const Bfloat16* a, const Bfloat16* b,
                  float beta, float* c, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_GEMM_H_
