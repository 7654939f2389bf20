#ifndef KERNELS_CHECK_GEMM_SHAPE_H_
#define KERNELS_CHECK_GEMM_SHAPE_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/gemm.h"

namespace capstan {

// INVALID_ARGUMENT for a size that does not fit the 32-bit sizes of BLAS.
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

}  // namespace capstan

#endif  // KERNELS_CHECK_GEMM_SHAPE_H_
