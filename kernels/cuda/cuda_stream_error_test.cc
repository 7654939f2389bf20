#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_event.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/launch_test_kernels.h"
#include "kernels/cuda/pinned_pool.h"
#include "tests/cuda_emulator/emulator.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// An emulated machine that becomes an ordinary one again.
class CudaStreamErrorTest : public ::testing::Test {
 protected:
  ~CudaStreamErrorTest() override { emulator::SetMachine({}); }

  static std::unique_ptr<CudaDevice> OpenGpu(size_t memory_bytes) {
    emulator::MachineOptions machine;
    machine.gpu_memory_bytes = memory_bytes;
    machine.pinned_memory_bytes = memory_bytes;
    emulator::SetMachine(machine);
    return CudaDevice::Open(0).value();
  }
};

TEST_F(CudaStreamErrorTest, NoMemoryForTheWorkspaceIsToldAndNothingIsLeft) {
  const auto device = OpenGpu(size_t{1} << 20);
  const absl::Status status =
      CudaStream::Create(*device, CudaStream::Blas::kWithWorkspace).status();
  EXPECT_EQ(status, absl::ResourceExhaustedError(
                        "cuda:0 (emulated on the CPU): expected 33554432 free bytes for cuBLAS's "
                        "workspace, got 1048576 of 1048576; free the GPU of other programs "
                        "(nvidia-smi lists them), or use a smaller model or batch_size"));
  EXPECT_EQ(emulator::AllocatedBytes(0), 0u);
}

TEST_F(CudaStreamErrorTest, NoMemoryToPageLockIsTold) {
  const auto device = OpenGpu(size_t{1} << 20);
  const absl::Status status = PinnedPool::Create(*device, (1 << 20) + 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("cuda:0 (emulated on the CPU): expected 1048832 bytes of host memory to "
                         "page-lock"));
}

TEST_F(CudaStreamErrorTest, AFaultOfTheGpuIsToldByEveryLaterCall) {
  const auto device = OpenGpu(size_t{1} << 20);
  auto stream = CudaStream::Create(*device, CudaStream::Blas::kNone).value();
  auto other_stream = CudaStream::Create(*device, CudaStream::Blas::kNone).value();
  CudaEvent event = CudaEvent::Create(*device, CudaEvent::Timing::kOff).value();
  const DeviceBuffer buffer = DeviceBuffer::Allocate(*device, 64, "the test").value();
  emulator::FailCopy(/*skip=*/1);
  ASSERT_TRUE(stream->SetBytes(0, 64, buffer.data<void>()).ok());
  ASSERT_TRUE(stream->SetBytes(0, 64, buffer.data<void>()).ok()) << "told at once, not later";

  const absl::Status status = stream->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_THAT(std::string(status.message()), StartsWith("cuda:0 (emulated on the CPU): "));
  EXPECT_EQ(event.Record(*other_stream).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(event.Wait().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(other_stream->WaitFor(event).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(other_stream->SetBytes(0, 64, buffer.data<void>()).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(DeviceBuffer::Allocate(*device, 64, "more").status().code(),
            absl::StatusCode::kInternal);
}

TEST_F(CudaStreamErrorTest, WaitingForAnEventTellsAFaultBeforeIt) {
  const auto device = OpenGpu(size_t{1} << 20);
  auto stream = CudaStream::Create(*device, CudaStream::Blas::kNone).value();
  CudaEvent event = CudaEvent::Create(*device, CudaEvent::Timing::kOff).value();
  const DeviceBuffer buffer = DeviceBuffer::Allocate(*device, 64, "the test").value();
  emulator::FailCopy(/*skip=*/0);
  const absl::Status queued = stream->SetBytes(0, 64, buffer.data<void>());
  ASSERT_TRUE(queued.ok()) << queued;
  // The fault may be there already when the event is recorded; one of the two tells it.
  const absl::Status recorded = event.Record(*stream);
  const absl::Status status = recorded.ok() ? event.Wait() : recorded;
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorIllegalAddress"));
}

TEST_F(CudaStreamErrorTest, ACopyBeyondABufferIsRefused) {
  const auto device = OpenGpu(size_t{1} << 20);
  auto stream = CudaStream::Create(*device, CudaStream::Blas::kNone).value();
  const DeviceBuffer buffer = DeviceBuffer::Allocate(*device, 64, "the test").value();
  const absl::Status status = stream->SetBytes(0, 65, buffer.data<void>());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("setting 65 bytes: cudaErrorInvalidValue"));
  EXPECT_TRUE(stream->SetBytes(0, 64, buffer.data<void>()).ok()) << "the GPU is not lost";
}

// A GPU refuses such a launch. The emulator sees the bounds when the kernel runs.
TEST_F(CudaStreamErrorTest, AKernelDoesNotRunWithMoreThreadsThanItsLaunchBounds) {
  const auto device = CudaDevice::Open(0);
  ASSERT_TRUE(device.ok()) << device.status();
  const auto stream = CudaStream::Create(**device, CudaStream::Blas::kNone);
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE(SumBlocks(/*blocks=*/1, /*threads=*/288, nullptr, nullptr, **stream).ok());
  EXPECT_EQ((*stream)->Synchronize().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(emulator::LastKernelFault(),
              HasSubstr("a block has 288 threads; the kernel's launch bounds are 256"));
}

}  // namespace
}  // namespace capstan
