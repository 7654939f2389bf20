#ifndef KERNELS_CUDA_SOFTMAX_ROW_TEST_KERNELS_H_
#define KERNELS_CUDA_SOFTMAX_ROW_TEST_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/sum_and_count.h"

// Kernels for softmax_row_test.
namespace capstan {

// *total = SampleTotals of one thread: `samples` correct ones, each with this sum of its
// exponentials.
absl::Status TotalOfSamples(int64_t samples, double row_sum, SumAndCount* total,
                            CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_SOFTMAX_ROW_TEST_KERNELS_H_
