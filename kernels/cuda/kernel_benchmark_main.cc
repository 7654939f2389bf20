// kernel_benchmark: how fast each operation is on a GPU, against a copy of as many bytes.
#include <iostream>
#include <memory>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/kernel_benchmark.h"
#include "kernels/gemm.h"

ABSL_FLAG(int64_t, elements, 100000000, "float32 elements of each array");
ABSL_FLAG(int64_t, matrix_size, 8192, "rows and columns of the factors of matrix products");
ABSL_FLAG(int, runs, 21, "timed runs of each operation, of which the median is shown");
ABSL_FLAG(int, flush_mib, 256, "MiB read before each run to empty the L2 cache");
ABSL_FLAG(int, device, 0, "number of the GPU, from 0");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

absl::StatusOr<KernelBenchmarkOptions> OptionsOfFlags() {
  KernelBenchmarkOptions options;
  options.elements = absl::GetFlag(FLAGS_elements);
  options.matrix_size = absl::GetFlag(FLAGS_matrix_size);
  options.runs = absl::GetFlag(FLAGS_runs);
  const int flush_mib = absl::GetFlag(FLAGS_flush_mib);
  if (options.elements < 1 || options.matrix_size < 1 || options.runs < 1 || flush_mib < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected --elements, --matrix_size and --runs of 1 at least and --flush_mib of 0, got ",
        options.elements, ", ", options.matrix_size, ", ", options.runs, " and ", flush_mib));
  }
  options.flush_bytes = static_cast<size_t>(flush_mib) << 20;
  return options;
}

absl::Status Benchmark(const KernelBenchmarkOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CudaDevice> device,
                   CudaDevice::Open(absl::GetFlag(FLAGS_device)));
  ASSIGN_OR_RETURN(const KernelReport report, RunKernelBenchmark(*device, options));
  std::cout << ToText(report);
  if (absl::GetFlag(FLAGS_json)) std::cout << ToJson(report) << "\n";
  std::cout.flush();
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "Measures the operations of training on a GPU: each one's time, and its "
                       "bytes per second as a share of what a copy on the device reaches in the "
                       "same run. Each is compared with its CPU twin first.");
  absl::Status status = capstan::ParseProgramFlags(std::vector<std::string>(argv, argv + argc));
  const auto options = status.ok() ? capstan::OptionsOfFlags() : status;
  if (!options.ok()) {
    capstan::EndProgram("kernel_benchmark", options.status(), /*is_usage_error=*/true);
  }
  capstan::UseOneBlasThread();
  capstan::EndProgram("kernel_benchmark", capstan::Benchmark(*options));
}
