#include "kernels/cuda/encode_sums.h"

#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"

namespace capstan {
namespace {

// One block does all, and is as large as possible. A few thousand partials are a few loads each.
constexpr int kThreads = 1024;

// At most 64 registers and 24576 bytes of shared memory.
__global__ void __launch_bounds__(kThreads)
    AddEncodeSumsKernel(int64_t n, const EncodeResult* partials, EncodeResult* result) {
  EncodeResult own;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    own.gradient_sum_of_squares += partials[i].gradient_sum_of_squares;
    own.residual_sum_of_squares += partials[i].residual_sum_of_squares;
    own.non_finite += partials[i].non_finite;
  }
  StoreBlockEncodeSum<kThreads>(own, result);
}

}  // namespace

absl::Status AddEncodeSums(const char* operation, int64_t n, const EncodeResult* partials,
                           EncodeResult* result, CudaStream& stream) {
  return Launch(operation, stream, /*blocks=*/1, kThreads, AddEncodeSumsKernel, n, partials,
                result);
}

}  // namespace capstan
