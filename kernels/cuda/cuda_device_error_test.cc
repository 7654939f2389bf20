#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/kernel_benchmark.h"
#include "kernels/gemm.h"
#include "tests/cuda_emulator/emulator.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

absl::Status OpenOn(const emulator::MachineOptions& machine, int number) {
  emulator::SetMachine(machine);
  const absl::Status status = CudaDevice::Open(number).status();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error that was told is left behind";
  emulator::SetMachine({});
  return status;
}

TEST(CudaDeviceErrorTest, NoDriver) {
  emulator::MachineOptions machine;
  machine.driver_version = 0;
  EXPECT_EQ(OpenOn(machine, 0),
            absl::UnavailableError(
                "no NVIDIA driver answers: expected one for CUDA 13.0 (R580 or newer); install "
                "it and look whether nvidia-smi lists the GPU, or use "
                "--device=cpu"));
}

TEST(CudaDeviceErrorTest, ADriverThatIsTooOld) {
  emulator::MachineOptions machine;
  machine.driver_version = 12040;
  EXPECT_EQ(OpenOn(machine, 0),
            absl::FailedPreconditionError(
                "the NVIDIA driver is too old: expected one for CUDA 13.0 (R580 or newer), got "
                "one for CUDA 12.4; update the driver, or use --device=cpu"));
}

TEST(CudaDeviceErrorTest, NoGpu) {
  emulator::MachineOptions machine;
  machine.gpu_count = 0;
  EXPECT_EQ(OpenOn(machine, 0),
            absl::UnavailableError(
                "looking for GPUs: cudaErrorNoDevice: no CUDA-capable device is detected; look "
                "whether nvidia-smi lists a GPU and CUDA_VISIBLE_DEVICES hides none, or use "
                "--device=cpu"));
}

TEST(CudaDeviceErrorTest, ANumberTooMuch) {
  emulator::MachineOptions machine;
  machine.gpu_count = 2;
  EXPECT_TRUE(OpenOn(machine, 1).ok());
  EXPECT_EQ(OpenOn(machine, 3),
            absl::InvalidArgumentError("cuda:3: expected a GPU number from 0 to 1, of the 2 that "
                                       "this machine has; correct --device"));
}

TEST(CudaDeviceErrorTest, AGpuForWhichThereIsNoCode) {
  emulator::MachineOptions machine;
  machine.has_kernels = false;
  const absl::Status status = OpenOn(machine, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("cuda:0 (emulated on the CPU), compute capability 9.0: "
                                          "cudaErrorNoKernelImageForDevice"));
}

absl::StatusOr<KernelReport> ReportOf(int compute_capability) {
  UseOneBlasThread();
  emulator::MachineOptions machine;
  machine.compute_capability = compute_capability;
  emulator::SetMachine(machine);
  const auto run = []() -> absl::StatusOr<KernelReport> {
    ASSIGN_OR_RETURN(const std::unique_ptr<CudaDevice> device, CudaDevice::Open(0));
    KernelBenchmarkOptions options;
    options.elements = 100;
    options.matrix_size = 8;
    options.runs = 1;
    options.flush_bytes = 1024;
    return RunKernelBenchmark(*device, options);
  };
  auto report = run();
  emulator::SetMachine({});
  return report;
}

TEST(CudaDeviceErrorTest, AGpuBefore8HasFiguresWithoutBfloat16) {
  const auto report = ReportOf(/*compute_capability=*/75);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->products.size(), 2u);
  EXPECT_EQ(report->products[1].name, "TF32 (float32 here)");
}

// 0 without such an operation.
double RequiredShare(const KernelReport& report, const std::string& name) {
  for (const KernelFigure& figure : report.kernels) {
    if (figure.name == name) return figure.required_share;
  }
  return 0;
}

TEST(CudaDeviceErrorTest, LessIsRequiredOfSumsWhereFloat64IsSlow) {
  const auto fast = ReportOf(/*compute_capability=*/90);
  const auto slow = ReportOf(/*compute_capability=*/86);
  ASSERT_TRUE(fast.ok() && slow.ok()) << fast.status() << slow.status();
  EXPECT_EQ(RequiredShare(*fast, "sum of squares"), 0.75);
  EXPECT_EQ(RequiredShare(*slow, "sum of squares"), 0.4);
  EXPECT_EQ(RequiredShare(*fast, "encode int8"), 0.75);
  EXPECT_EQ(RequiredShare(*slow, "encode int8"), 0.5);
  EXPECT_EQ(RequiredShare(*slow, "adam"), RequiredShare(*fast, "adam"));
}

TEST(CudaDeviceErrorTest, ALostGpuCannotBeOpenedAgain) {
  {
    const auto device = CudaDevice::Open(0);
    ASSERT_TRUE(device.ok()) << device.status();
    auto stream = CudaStream::Create(**device, CudaStream::Blas::kNone);
    ASSERT_TRUE(stream.ok()) << stream.status();
    auto buffer = DeviceBuffer::Allocate(**device, 16, "the test");
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    emulator::FailCopy(/*skip=*/0);
    ASSERT_TRUE((*stream)->SetBytes(0, 16, buffer->data<void>()).ok());
    EXPECT_EQ((*stream)->Synchronize().code(), absl::StatusCode::kInternal);

    const absl::Status status = CudaDevice::Open(0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr("cudaErrorIllegalAddress"));
  }
}

}  // namespace
}  // namespace capstan
