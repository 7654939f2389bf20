#ifndef KERNELS_GEMM_H_
#define KERNELS_GEMM_H_

#include <cstdint>

namespace capstan {

// Sizes of a matrix product: op(A) is [m, k], op(B) is [k, n] and C is [m, n]; op transposes when
// the flag says so. A transposed A is stored as [k, m], a transposed B as [n, k].
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool is_a_transposed = false;
  bool is_b_transposed = false;
};

// C = alpha * op(A) * op(B) + beta * C, all row-major and without gaps. When `beta` is 0, C is
// written without being read. C overlaps neither A nor B. Each size is at most 2^31 - 1.
void Gemm(const GemmShape& shape, float alpha, const float* a, const float* b, float beta,
          float* c);

}  // namespace capstan

#endif  // KERNELS_GEMM_H_
