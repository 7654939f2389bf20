#ifndef KERNELS_CUDA_LAUNCH_TEST_KERNELS_H_
#define KERNELS_CUDA_LAUNCH_TEST_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"

// Kernels for launch_test.
namespace capstan {

// values[i] = i * scale for each i below `count`, with ElementwiseBlocks(count, threads, stream)
// blocks.
absl::Status WriteMultiples(int64_t count, int threads, float scale, float* values,
                            CudaStream& stream);

// sums[b] = the sum of block b's 256 values, by shuffles and shared memory; `blocks` blocks. The
// kernel's launch bounds are 256 threads.
absl::Status SumBlocks(int64_t blocks, int threads, const float* values, float* sums,
                       CudaStream& stream);

// ElementwiseBlocks, for tests: they are no .cu.cc files.
int64_t BlocksFor(int64_t count, int threads, const CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_LAUNCH_TEST_KERNELS_H_
