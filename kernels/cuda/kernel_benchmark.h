#ifndef KERNELS_CUDA_KERNEL_BENCHMARK_H_
#define KERNELS_CUDA_KERNEL_BENCHMARK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_device.h"

namespace capstan {

struct KernelBenchmarkOptions {
  int64_t elements = 100000000;  // in each array, at least 1; matrices have about as many
  int64_t matrix_size = 8192;    // Rows and columns of the factors of products. At least 1.
  int runs = 21;                 // The median is taken. At least 1.
  size_t flush_bytes = size_t{256} << 20;  // Read before each run; more than an L2 cache.
};

struct KernelFigure {
  std::string name;
  std::string size;
  double milliseconds = 0;
  double bytes = 0;  // the least to be read and written
  double gigabytes_per_second = 0;
  double share = 0;  // of the copy's bandwidth
  double required_share = 0;
  bool is_enough() const { return share >= required_share; }
};

struct ProductFigure {
  std::string name;
  double milliseconds = 0;
  double teraflops_per_second = 0;
};

struct KernelReport {
  std::string device;
  bool is_emulated = false;  // then no figure means anything
  int64_t matrix_size = 0;
  double copy_gigabytes_per_second = 0;  // read and written; the faster of begin and end
  std::vector<KernelFigure> kernels;
  std::vector<ProductFigure> products;  // without bfloat16 where the GPU has none
};

// Measures every operation on `device`, after checking each against its CPU twin on a sample.
// INTERNAL: an operation is wrong. RESOURCE_EXHAUSTED: the arrays do not fit.
absl::StatusOr<KernelReport> RunKernelBenchmark(const CudaDevice& device,
                                                const KernelBenchmarkOptions& options);

// A table for people, and one line of JSON.
std::string ToText(const KernelReport& report);
std::string ToJson(const KernelReport& report);

}  // namespace capstan

#endif  // KERNELS_CUDA_KERNEL_BENCHMARK_H_
