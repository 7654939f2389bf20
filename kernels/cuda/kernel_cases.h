#ifndef KERNELS_CUDA_KERNEL_CASES_H_
#define KERNELS_CUDA_KERNEL_CASES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/slice_encoding.h"
#include "kernels/norm.h"
#include "kernels/softmax_cross_entropy.h"

namespace capstan {

// The arrays of a benchmark's operations, in the memory of a stream's device.
struct KernelArrays {
  static constexpr int kFloatArrays = 5;
  // Random and not zero. The first two have both signs, the others are positive.
  float* floats[kFloatArrays] = {};
  int32_t* labels = nullptr;  // one a row, below the case's columns
  NormResult* norm = nullptr;
  SoftmaxCrossEntropyResult* loss = nullptr;
  EncodeResult* encoded = nullptr;  // on a GPU only; not compared
  void* scratch = nullptr;
};

// One operation on a matrix of `columns`, or on a vector, with one column.
struct KernelCase {
  std::string name;
  int64_t columns = 1;
  // The least to be read and written.
  double bytes_per_element = 0;
  // Required share of the bandwidth of a copy.
  double required_share = 0;
  // The same where CudaDevice::has_fast_float64() is false; 0: no other.
  double slow_float64_share = 0;
  // The largest difference between the GPU's results and the CPU's, relative to the largest number
  // of the array. 0: same bits.
  double tolerance = 0;
  std::function<absl::Status(int64_t rows, const KernelArrays& arrays, CpuStream& stream)> on_cpu;
  std::function<absl::Status(int64_t rows, const KernelArrays& arrays, CudaStream& stream)> on_gpu;
  // Queues what makes the arrays' numbers input for the operation. May be null.
  std::function<absl::Status(int64_t rows, const KernelArrays& arrays, CudaStream& stream)> prepare;
  // Scratch memory of on_gpu and prepare.
  std::function<size_t(int64_t rows, const CudaStream& stream)> scratch_bytes;
};

// All operations bound by memory.
std::vector<KernelCase> AllKernelCases();

}  // namespace capstan

#endif  // KERNELS_CUDA_KERNEL_CASES_H_
