#ifndef KERNELS_CUDA_MOMENTUM_CORRECTION_H_
#define KERNELS_CUDA_MOMENTUM_CORRECTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/norm.h"

// The worker's part of deep gradient compression beside its topk: Lin et al., "Deep Gradient
// Compression", ICLR'18, sections 3.1 and 3.2. All pointers are to the GPU's memory.
namespace capstan {

// momentum[i] = factor * momentum[i] + c * gradient[i], for `n` elements, each operation rounded to
// float32. c is 1. But if `norm` is not null and its norm exceeds `most`, c is most / norm.
absl::Status AddMomentum(int64_t n, float factor, const NormResult* norm, double most,
                         const float* gradient, float* momentum, CudaStream& stream);

// Sets the elements to 0 whose indices are the first `k` words of `bytes`, those of a topk.
absl::Status ZeroSent(int64_t k, const uint8_t* bytes, float* elements, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_MOMENTUM_CORRECTION_H_
