#ifndef KERNELS_CUDA_TOPK_THRESHOLD_H_
#define KERNELS_CUDA_TOPK_THRESHOLD_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/slice_encoding.h"

// Finds the smallest of the k largest absolute values: a radix select over their bits, which are
// integers of the same order. Three passes over the values, one for each digit.
namespace capstan {

// Written by FindTopkThreshold.
struct TopkThreshold {
  uint32_t magnitude;   // the bits of the k-th largest |value + residual|
  uint32_t ties;        // elements of exactly this magnitude among the k, at least 1
  uint32_t non_finite;  // not 0: an element is a NaN or an infinity
};

// Begins with the TopkThreshold.
size_t TopkThresholdScratchBytes();

// Queues the search: 1 <= k <= n < 2^32. Also writes the EncodeBlocks(n) partial sums of the
// gradient's squares and of the elements that are not finite.
absl::Status FindTopkThreshold(const SliceToEncode& slice, int64_t k, void* scratch,
                               EncodeResult* partials, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_TOPK_THRESHOLD_H_
