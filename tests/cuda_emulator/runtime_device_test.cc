#include <cuda_runtime.h>

#include "gtest/gtest.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/runtime_test_util.h"

namespace capstan {
namespace emulator {
namespace {

using RuntimeDeviceTest = RuntimeTest;

TEST_F(RuntimeDeviceTest, AnOrdinaryErrorLeavesTheGpuWell) {
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(CopyToDevice(stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST_F(RuntimeDeviceTest, AFailedLaunchIsToldLaterAndByEveryCall) {
  ASSERT_EQ(cudaMemsetAsync(device_, 0, kBytes, stream_), cudaSuccess);
  FailLaunch(/*skip=*/2);
  ASSERT_EQ(HoldUp(stream_), cudaSuccess);
  ASSERT_EQ(Launch(stream_, 1, 64, Add, kCount, 1.0f, device_), cudaSuccess);
  ASSERT_EQ(Launch(stream_, 1, 64, Add, kCount, 2.0f, device_), cudaSuccess);
  ASSERT_EQ(CopyToHost(stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  OpenGate();

  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaErrorIllegalAddress);
  EXPECT_EQ(CopyToDevice(other_stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 4), cudaErrorIllegalAddress);
  EXPECT_EQ(host_[100], 100.0f) << "what was behind the failed launch has run";
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess) << "the other GPU is well";
  EXPECT_EQ(cudaSetDevice(0), cudaErrorIllegalAddress);
}

TEST(RuntimeMachineTest, WithoutADriverTheDriverIsInsufficientAndHasNoVersion) {
  MachineOptions options;
  options.driver_version = 0;
  SetMachine(options);
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 0);
  int version = -1;
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 0);
  SetMachine({});
  cudaGetLastError();
}

TEST(RuntimeMachineTest, WithoutAGpuThereIsNoDevice) {
  MachineOptions options;
  options.gpu_count = 0;
  SetMachine(options);
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 4), cudaErrorNoDevice);
  SetMachine({});
  cudaGetLastError();
}

TEST(RuntimeMachineDeathTest, TheMachineDoesNotChangeWhileSomethingIsAllocated) {
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 4), cudaSuccess);
  EXPECT_DEATH(SetMachine({}), "1 pieces of memory are still allocated");
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(RuntimeMachineTest, ErrorsHaveTheirNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

}  // namespace
}  // namespace emulator
}  // namespace capstan
