#include "kernels/cuda/kernel_benchmark.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "kernels/arrays.h"
#include "kernels/cuda/device_timer.h"
#include "kernels/cuda/kernel_cases.h"
#include "kernels/cuda/kernel_workspace.h"
#include "kernels/gemm.h"
#include "kernels/norm.h"

namespace capstan {
namespace {

// Size of a check against the CPU.
constexpr int64_t kSampleElements = 100003;

int64_t RowsOf(const KernelCase& kernel, int64_t elements) {
  return std::max<int64_t>(1, elements / kernel.columns);
}

std::string SizeOf(const KernelCase& kernel, int64_t rows) {
  return kernel.columns == 1 ? absl::StrCat(rows) : absl::StrCat(rows, " x ", kernel.columns);
}

KernelWorkspace::Options Needs(const std::vector<KernelCase>& cases,
                               const KernelBenchmarkOptions& options, CudaStream& stream) {
  KernelWorkspace::Options needs;
  needs.stream = &stream;
  needs.elements = std::max(options.elements, options.matrix_size * options.matrix_size);
  for (const KernelCase& kernel : cases) {
    const int64_t rows = RowsOf(kernel, options.elements);
    needs.elements = std::max(needs.elements, rows * kernel.columns);
    if (kernel.columns > 1) needs.rows = std::max(needs.rows, rows);
    needs.scratch_bytes = std::max(needs.scratch_bytes, kernel.scratch_bytes(rows, stream));
  }
  needs.scratch_bytes =
      std::max(needs.scratch_bytes,
               SumOfSquaresScratchBytes(options.matrix_size * options.matrix_size, stream));
  return needs;
}

absl::StatusOr<double> CopyBandwidth(int64_t elements, const KernelArrays& arrays,
                                     DeviceTimer& timer, CudaStream& stream) {
  ASSIGN_OR_RETURN(const double milliseconds, timer.MedianMilliseconds([&] {
    return Copy(elements, arrays.floats[0], arrays.floats[1], stream);
  }));
  return 8 * static_cast<double>(elements) / (milliseconds * 1e6);
}

absl::StatusOr<KernelFigure> Measure(const KernelCase& kernel, int64_t elements,
                                     KernelWorkspace& workspace, DeviceTimer& timer,
                                     CudaStream& stream) {
  const int64_t rows = RowsOf(kernel, elements);
  RETURN_IF_ERROR(workspace.Check(kernel, std::min(rows, RowsOf(kernel, kSampleElements))));
  RETURN_IF_ERROR(workspace.Refill(rows, kernel.columns));
  if (kernel.prepare != nullptr) {
    RETURN_IF_ERROR(kernel.prepare(rows, workspace.arrays(), stream));
  }
  KernelFigure figure;
  figure.name = kernel.name;
  figure.size = SizeOf(kernel, rows);
  ASSIGN_OR_RETURN(figure.milliseconds, timer.MedianMilliseconds([&] {
    return kernel.on_gpu(rows, workspace.arrays(), stream);
  }));
  figure.bytes = kernel.bytes_per_element * static_cast<double>(rows * kernel.columns);
  figure.gigabytes_per_second = figure.bytes / (figure.milliseconds * 1e6);
  const bool is_slow = kernel.slow_float64_share > 0 && !stream.device().has_fast_float64();
  figure.required_share = is_slow ? kernel.slow_float64_share : kernel.required_share;
  return figure;
}

// INTERNAL unless the matrix is a product of random factors: finite, and not zero.
absl::Status CheckProduct(int64_t elements, const float* product, const KernelArrays& arrays,
                          CudaStream& stream) {
  NormResult norm;
  RETURN_IF_ERROR(SumOfSquares(elements, product, arrays.norm, arrays.scratch, stream));
  RETURN_IF_ERROR(stream.CopyToHost(arrays.norm, sizeof(norm), &norm));
  RETURN_IF_ERROR(stream.Synchronize());
  if (norm.non_finite == 0 && norm.sum_of_squares > 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "expected a product of finite numbers, got ", norm.non_finite,
      " that are not, and a sum of squares of ", norm.sum_of_squares, " of the others"));
}

absl::StatusOr<std::vector<ProductFigure>> MeasureProducts(int64_t size, const KernelArrays& arrays,
                                                           DeviceTimer& timer, CudaStream& stream) {
  const GemmShape shape = {size, size, size};
  std::vector<ProductFigure> figures;
  const auto add = [&](const std::string& name,
                       absl::FunctionRef<absl::Status()> product) -> absl::Status {
    ProductFigure figure;
    figure.name = name;
    ASSIGN_OR_RETURN(figure.milliseconds, timer.MedianMilliseconds(product));
    RETURN_IF_ERROR(Annotate(CheckProduct(size * size, arrays.floats[2], arrays, stream), name));
    const double n = static_cast<double>(size);
    figure.teraflops_per_second = 2 * n * n * n / (figure.milliseconds * 1e9);
    figures.push_back(figure);
    return absl::OkStatus();
  };
  const bool has_tf32 = stream.device().has_tf32_and_bfloat16();
  const char* const tf32 = has_tf32 ? "TF32" : "TF32 (float32 here)";
  for (const MatrixPrecision precision : {MatrixPrecision::kFloat32, MatrixPrecision::kTf32}) {
    RETURN_IF_ERROR(add(precision == MatrixPrecision::kTf32 ? tf32 : "float32", [&] {
      return Gemm(shape, precision, /*alpha=*/1.0f, arrays.floats[0], arrays.floats[1],
                  /*beta=*/0.0f, arrays.floats[2], stream);
    }));
  }
  if (!stream.device().has_tf32_and_bfloat16()) return figures;
  // Both fit into the memory of one float32 matrix.
  Bfloat16* const a = reinterpret_cast<Bfloat16*>(arrays.floats[3]);
  Bfloat16* const b = a + size * size;
  RETURN_IF_ERROR(ConvertToBfloat16(size * size, arrays.floats[0], a, stream));
  RETURN_IF_ERROR(ConvertToBfloat16(size * size, arrays.floats[1], b, stream));
  RETURN_IF_ERROR(add("bfloat16", [&] {
    return Gemm(shape, /*alpha=*/1.0f, a, b, /*beta=*/0.0f, arrays.floats[2], stream);
  }));
  return figures;
}

}  // namespace

absl::StatusOr<KernelReport> RunKernelBenchmark(const CudaDevice& device,
                                                const KernelBenchmarkOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CudaStream> stream,
                   CudaStream::Create(device, CudaStream::Blas::kWithWorkspace));
  const std::vector<KernelCase> cases = AllKernelCases();
  ASSIGN_OR_RETURN(const std::unique_ptr<KernelWorkspace> workspace,
                   KernelWorkspace::Create(Needs(cases, options, *stream)));
  DeviceTimer::Options timing;
  timing.stream = stream.get();
  timing.runs = options.runs;
  timing.flush_bytes = options.flush_bytes;
  ASSIGN_OR_RETURN(const std::unique_ptr<DeviceTimer> timer, DeviceTimer::Create(timing));
  KernelReport report;
  report.device = device.name();
  report.is_emulated = absl::StrContains(device.name(), "emulated");
  report.matrix_size = options.matrix_size;
  RETURN_IF_ERROR(workspace->Refill(/*rows=*/0, /*columns=*/1));
  ASSIGN_OR_RETURN(report.copy_gigabytes_per_second,
                   CopyBandwidth(options.elements, workspace->arrays(), *timer, *stream));
  for (const KernelCase& kernel : cases) {
    ASSIGN_OR_RETURN(KernelFigure figure,
                     Measure(kernel, options.elements, *workspace, *timer, *stream));
    report.kernels.push_back(std::move(figure));
  }
  // The GPU may have become faster or slower meanwhile.
  ASSIGN_OR_RETURN(const double copy_at_the_end,
                   CopyBandwidth(options.elements, workspace->arrays(), *timer, *stream));
  double& ceiling = report.copy_gigabytes_per_second;
  ceiling = std::max(ceiling, copy_at_the_end);
  for (KernelFigure& figure : report.kernels) {
    figure.share = figure.gigabytes_per_second / ceiling;
  }
  RETURN_IF_ERROR(workspace->Refill(/*rows=*/0, /*columns=*/1));
  ASSIGN_OR_RETURN(report.products,
                   MeasureProducts(options.matrix_size, workspace->arrays(), *timer, *stream));
  return report;
}

std::string ToText(const KernelReport& report) {
  std::string text = absl::StrCat("device: ", report.device, "\n");
  if (report.is_emulated) {
    absl::StrAppend(&text, "device: emulated. The figures below mean nothing.\n");
  }
  absl::StrAppendFormat(&text, "copy on the device: %.1f GB/s, read and written: the ceiling\n\n",
                        report.copy_gigabytes_per_second);
  absl::StrAppendFormat(&text, "%-22s %17s %10s %14s %9s %6s %9s\n", "operation", "size", "ms",
                        "bytes", "GB/s", "share", "required");
  for (const KernelFigure& figure : report.kernels) {
    absl::StrAppendFormat(&text, "%-22s %17s %10.4f %14.0f %9.1f %5.0f%% %8.0f%% %s\n", figure.name,
                          figure.size, figure.milliseconds, figure.bytes,
                          figure.gigabytes_per_second, 100 * figure.share,
                          100 * figure.required_share, figure.is_enough() ? "ok" : "LOW");
  }
  absl::StrAppendFormat(&text, "\nmatrix product, %d x %d x %d\n", report.matrix_size,
                        report.matrix_size, report.matrix_size);
  for (const ProductFigure& figure : report.products) {
    absl::StrAppendFormat(&text, "%-22s %10.4f ms %9.1f TFLOP/s\n", figure.name,
                          figure.milliseconds, figure.teraflops_per_second);
  }
  return text;
}

std::string ToJson(const KernelReport& report) {
  nlohmann::ordered_json json;
  json["device"] = report.device;
  json["emulated"] = report.is_emulated;
  json["copy_gigabytes_per_second"] = report.copy_gigabytes_per_second;
  json["kernels"] = nlohmann::ordered_json::array();
  for (const KernelFigure& figure : report.kernels) {
    json["kernels"].push_back({{"name", figure.name},
                               {"size", figure.size},
                               {"milliseconds", figure.milliseconds},
                               {"bytes", figure.bytes},
                               {"gigabytes_per_second", figure.gigabytes_per_second},
                               {"share", figure.share},
                               {"required_share", figure.required_share},
                               {"enough", figure.is_enough()}});
  }
  json["matrix_size"] = report.matrix_size;
  json["products"] = nlohmann::ordered_json::array();
  for (const ProductFigure& figure : report.products) {
    json["products"].push_back({{"name", figure.name},
                                {"milliseconds", figure.milliseconds},
                                {"teraflops_per_second", figure.teraflops_per_second}});
  }
  return json.dump();
}

}  // namespace capstan
