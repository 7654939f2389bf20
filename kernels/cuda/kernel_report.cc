#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cuda/kernel_benchmark.h"

namespace capstan {

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
