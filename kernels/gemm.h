#ifndef KERNELS_GEMM_H_
#define KERNELS_GEMM_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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

// INVALID_ARGUMENT for a size beyond the 32-bit sizes of BLAS.
inline absl::Status CheckGemmShape(const GemmShape& shape) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  for (const int64_t size : {shape.m, shape.n, shape.k}) {
    if (size >= 0 && size <= kMax) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("matrix product: expected sizes from 0 to ", kMax, ", got m = ", shape.m,
                     ", n = ", shape.n, ", k = ", shape.k, "; use smaller batches or layers"));
  }
  return absl::OkStatus();
}

// How factors are rounded before they are multiplied. Sums are float32.
enum class MatrixPrecision {
  kFloat32,  // not at all
  kTf32,     // to 10 bits of mantissa, if that is faster on the device; the CPU does not round
};

// C = alpha * op(A) * op(B) + beta * C, all row-major and without gaps. If `beta` is 0, C is
// written without being read. C overlaps neither A nor B. INVALID_ARGUMENT for a size below 0 or
// above 2^31 - 1. A CudaStream must have a cuBLAS handle.
absl::Status Gemm(const GemmShape& shape, MatrixPrecision precision, float alpha, const float* a,
                  const float* b, float beta, float* c, CpuStream& stream);
absl::Status Gemm(const GemmShape& shape, MatrixPrecision precision, float alpha, const float* a,
                  const float* b, float beta, float* c, CudaStream& stream);

// The same of bfloat16 factors: products and sums are float32.
absl::Status Gemm(const GemmShape& shape, float alpha, const Bfloat16* a, const Bfloat16* b,
                  float beta, float* c, CpuStream& stream);
absl::Status Gemm(const GemmShape& shape, float alpha, const Bfloat16* a, const Bfloat16* b,
                  float beta, float* c, CudaStream& stream);

// Keeps every later Gemm of a CpuStream in this process on its caller's thread. Its result then
// does not depend on the number of cores. A program calls it before it starts a thread.
void UseOneBlasThread();

// Takes the memory that Gemm of a CpuStream works in. RESOURCE_EXHAUSTED if this process may not
// have so much address space: OpenBLAS asks again and again, without an end. A program that a limit
// may be set for (ulimit -v) calls it before the first Gemm.
absl::Status TakeBlasMemory();

// The library of a CpuStream's Gemm, and its code for this CPU: "OpenBLAS 0.3.21 Haswell". The bits
// of sums depend on both.
std::string BlasName();

}  // namespace capstan

#endif  // KERNELS_GEMM_H_
