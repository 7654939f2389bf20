#include "kernels/gemm.h"

#include <cblas.h>
#include <glog/logging.h>

#include <limits>

namespace capstan {
namespace {

blasint ToBlas(int64_t size) {
  CHECK_GE(size, 0);
  CHECK_LE(size, std::numeric_limits<blasint>::max());
  return static_cast<blasint>(size);
}

// BLAS refuses a row length of 0, also for an empty matrix.
blasint RowLength(int64_t columns) { return ToBlas(columns == 0 ? 1 : columns); }

}  // namespace

void Gemm(const GemmShape& shape, float alpha, const float* a, const float* b, float beta,
          float* c) {
  cblas_sgemm(CblasRowMajor, shape.is_a_transposed ? CblasTrans : CblasNoTrans,
              shape.is_b_transposed ? CblasTrans : CblasNoTrans, ToBlas(shape.m), ToBlas(shape.n),
              ToBlas(shape.k), alpha, a, RowLength(shape.is_a_transposed ? shape.m : shape.k), b,
              RowLength(shape.is_b_transposed ? shape.k : shape.n), beta, c, RowLength(shape.n));
}

}  // namespace capstan
