#include <cuda_runtime.h>

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/topk_codec.h"

namespace capstan {
namespace {

constexpr int kThreads = kElementwiseThreads;

// Bytes moved for each element: 12.
// At most 32 registers.
__global__ void __launch_bounds__(kThreads)
    AddMomentumKernel(int64_t n, float factor, const NormResult* norm, double most,
                      const float* gradient, float* momentum) {
  float clip = 1;
  if (norm != nullptr) {
    const double length = sqrt(norm->sum_of_squares);
    if (length > most) clip = static_cast<float>(most / length);
  }
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * kThreads) {
    momentum[i] = factor * momentum[i] + clip * gradient[i];
  }
}

// At most 32 registers.
__global__ void __launch_bounds__(kThreads)
    ZeroSentKernel(int64_t k, const uint32_t* indices, float* elements) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < k;
       i += int64_t{gridDim.x} * kThreads) {
    elements[indices[i]] = 0;
  }
}

}  // namespace

absl::Status AddMomentum(int64_t n, float factor, const NormResult* norm, double most,
                         const float* gradient, float* momentum, CudaStream& stream) {
  return Launch("momentum", stream, ElementwiseBlocks(n, kThreads, stream), kThreads,
                AddMomentumKernel, n, factor, norm, most, gradient, momentum);
}

absl::Status ZeroSent(int64_t k, const uint8_t* bytes, float* elements, CudaStream& stream) {
  return Launch("momentum factor masking", stream, ElementwiseBlocks(k, kThreads, stream), kThreads,
                ZeroSentKernel, k, reinterpret_cast<const uint32_t*>(bytes), elements);
}

}  // namespace capstan
