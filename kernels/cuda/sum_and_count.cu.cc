#include "kernels/cuda/sum_and_count.h"

#include <cuda_runtime.h>

#include "kernels/cuda/block_sum.h"
#include "kernels/cuda/launch.h"

namespace capstan {
namespace {

// One block does all, and is as large as possible. A few thousand partials are a few loads each.
constexpr int kThreads = 1024;

// At most 64 registers and 16384 bytes of shared memory.
__global__ void __launch_bounds__(kThreads)
    AddPartialsKernel(int64_t n, const SumAndCount* partials, double* sum, int64_t* count) {
  SumAndCount own = {0, 0};
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    const SumAndCount partial = partials[i];
    own.sum += partial.sum;
    own.count += partial.count;
  }
  const SumAndCount total = BlockSum<kThreads>(own);
  if (threadIdx.x > 0) return;
  *sum = total.sum;
  *count = total.count;
}

}  // namespace

absl::Status AddPartials(const char* operation, int64_t n, const SumAndCount* partials, double* sum,
                         int64_t* count, CudaStream& stream) {
  return Launch(operation, stream, /*blocks=*/1, kThreads, AddPartialsKernel, n, partials, sum,
                count);
}

}  // namespace capstan
