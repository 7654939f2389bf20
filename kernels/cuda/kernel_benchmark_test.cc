#include "kernels/cuda/kernel_benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/kernel_cases.h"
#include "kernels/cuda/kernel_workspace.h"
#include "kernels/gemm.h"
#include "kernels/optimizers.h"

namespace capstan {
namespace {

std::unique_ptr<CudaDevice> OpenDevice() {
  auto device = CudaDevice::Open(0);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

KernelBenchmarkOptions SmallOptions() {
  KernelBenchmarkOptions options;
  options.elements = 10000;
  options.matrix_size = 32;
  options.runs = 1;
  options.flush_bytes = 1024;
  return options;
}

TEST(KernelBenchmarkTest, EveryOperationIsRightAndHasFigures) {
  UseOneBlasThread();
  const std::unique_ptr<CudaDevice> device = OpenDevice();
  const auto report = RunKernelBenchmark(*device, SmallOptions());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->is_emulated, absl::StrContains(device->name(), "emulated"));
  EXPECT_GT(report->copy_gigabytes_per_second, 0);
  ASSERT_EQ(report->kernels.size(), AllKernelCases().size());
  for (const KernelFigure& figure : report->kernels) {
    EXPECT_GT(figure.milliseconds, 0) << figure.name;
    EXPECT_NEAR(figure.gigabytes_per_second * figure.milliseconds * 1e6, figure.bytes,
                1e-6 * figure.bytes);
    EXPECT_NEAR(figure.share * report->copy_gigabytes_per_second, figure.gigabytes_per_second,
                1e-6 * figure.gigabytes_per_second);
  }
  EXPECT_EQ(report->products.size(), device->has_tf32_and_bfloat16() ? 3u : 2u);
}

KernelReport MadeUpReport() {
  KernelReport report;
  report.device = "cuda:0 (made up)";
  report.copy_gigabytes_per_second = 1000;
  report.kernels = {{"quick", "10 x 20", 1, 8e8, 800, 0.8, 0.75},
                    {"slow", "200", 1, 7e8, 700, 0.7, 0.75}};
  report.products = {{"TF32", 2.5, 400}};
  return report;
}

TEST(KernelReportTest, TextTellsWhatIsTooSlow) {
  const std::string text = ToText(MadeUpReport());
  EXPECT_THAT(text, testing::ContainsRegex("quick .*10 x 20 .*80% .*75% ok\n"));
  EXPECT_THAT(text, testing::ContainsRegex("slow .*200 .*70% .*75% LOW\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("emulated")));
}

TEST(KernelReportTest, TextTellsThatFiguresOfTheEmulatorMeanNothing) {
  KernelReport report = MadeUpReport();
  report.is_emulated = true;
  EXPECT_THAT(ToText(report), testing::HasSubstr("device: emulated. The figures"));
}

TEST(KernelReportTest, JsonIsOneLineWithTheSameFigures) {
  const std::string json = ToJson(MadeUpReport());
  EXPECT_FALSE(absl::StrContains(json, "\n"));
  const auto parsed = nlohmann::json::parse(json);
  EXPECT_EQ(parsed["kernels"][1]["name"], "slow");
  EXPECT_EQ(parsed["kernels"][1]["gigabytes_per_second"], 700.0);
  EXPECT_EQ(parsed["kernels"][1]["enough"], false);
  EXPECT_EQ(parsed["products"][0]["teraflops_per_second"], 400.0);
}

TEST(KernelWorkspaceTest, CheckFindsAWrongKernel) {
  const std::unique_ptr<CudaDevice> device = OpenDevice();
  auto stream = CudaStream::Create(*device, CudaStream::Blas::kNone);
  ASSERT_TRUE(stream.ok()) << stream.status();
  KernelWorkspace::Options options;
  options.stream = stream->get();
  options.elements = 1000;
  auto workspace = KernelWorkspace::Create(options);
  ASSERT_TRUE(workspace.ok()) << workspace.status();
  KernelCase sgd = AllKernelCases().front();
  EXPECT_TRUE((*workspace)->Check(sgd, /*rows=*/1000).ok());
  sgd.on_gpu = [](int64_t n, const KernelArrays& arrays, CudaStream& gpu_stream) {
    return ApplyRule(SgdRule{/*learning_rate=*/2e-3f, /*weight_decay=*/0.0f}, n, arrays.floats[0],
                     {arrays.floats[1]}, gpu_stream);
  };
  const absl::Status status = (*workspace)->Check(sgd, /*rows=*/1000);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("sgd: array 1: element 0: expected"));
}

}  // namespace
}  // namespace capstan
