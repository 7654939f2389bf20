#include <cuda_runtime.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/runtime_test_util.h"

namespace capstan {
namespace emulator {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

using RuntimeStreamTest = RuntimeTest;

void BarrierOfSome() {
  if (threadIdx.x == 0) __shfl_xor_sync(~0u, 1, 1);
  __syncthreads();
}

TEST_F(RuntimeStreamTest, AStreamRunsWhatItIsGivenInOrder) {
  ASSERT_EQ(CopyToDevice(stream_), cudaSuccess);
  ASSERT_EQ(Launch(stream_, 2, 64, Add, kCount, 0.5f, device_), cudaSuccess);
  ASSERT_EQ(Launch(stream_, 3, 32, Add, kCount, 0.25f, device_), cudaSuccess);
  ASSERT_EQ(CopyToHost(stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(host_[i], static_cast<float>(i) + 0.75f) << i;
}

TEST_F(RuntimeStreamTest, StreamsDoNotWaitForEachOther) {
  ASSERT_EQ(HoldUp(stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(CopyToDevice(other_stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(other_stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  OpenGate();
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
}

TEST_F(RuntimeStreamTest, AStreamWaitsForAnEventOfAnother) {
  ASSERT_EQ(cudaMemsetAsync(device_, 0, kBytes, stream_), cudaSuccess);
  ASSERT_EQ(HoldUp(stream_), cudaSuccess);
  ASSERT_EQ(Launch(stream_, 2, 64, Add, kCount, 3.0f, device_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_stream_, event_, 0), cudaSuccess);
  ASSERT_EQ(CopyToHost(other_stream_), cudaSuccess);
  gate_.Open();
  ASSERT_EQ(cudaStreamSynchronize(other_stream_), cudaSuccess);
  gate_ = Gate();
  EXPECT_EQ(host_[100], 3.0f);
}

TEST_F(RuntimeStreamTest, AWaitMeansTheRecordBeforeItNotALaterOne) {
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_stream_, event_, 0), cudaSuccess);
  ASSERT_EQ(HoldUp(stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other_stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
}

TEST_F(RuntimeStreamTest, AnEventThatWasNeverRecordedHoldsNobodyUp) {
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event_, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(RuntimeStreamTest, ElapsedTimeIsFromOneRecordToTheOther) {
  cudaEvent_t end;
  ASSERT_EQ(cudaEventCreateWithFlags(&end, 0), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(HoldUp(stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaErrorNotReady);
  OpenGate();
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaSuccess);
  EXPECT_THAT(milliseconds, AllOf(Ge(0.0f), Lt(60'000.0f)));
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
}

TEST_F(RuntimeStreamTest, AnEventWithoutTimingHasNoElapsedTime) {
  cudaEvent_t untimed;
  ASSERT_EQ(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(untimed, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(untimed), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, untimed, untimed), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(untimed), cudaSuccess);
}

TEST_F(RuntimeStreamTest, LaunchesOutsideOfTheLimitsAreRefused) {
  EXPECT_EQ(Launch(stream_, 0, 32, Add, kCount, 1.0f, device_), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Launch(stream_, 1, 0, Add, kCount, 1.0f, device_), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Launch(stream_, 1, 1025, Add, kCount, 1.0f, device_), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Launch(stream_, 1, dim3(64, 32), Add, kCount, 1.0f, device_),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(Launch(stream_, dim3(1, 65536), 1, Add, kCount, 1.0f, device_),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(RuntimeStreamTest, AKernelThatHangsIsALaunchFailure) {
  ASSERT_EQ(Launch(stream_, 1, 32, BarrierOfSome), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  EXPECT_THAT(LastKernelFault(), HasSubstr("31 of 32 threads wait at a barrier"));
}

TEST_F(RuntimeStreamTest, AKernelMayNotGetPointersToTheHost) {
  float on_host = 0;
  ASSERT_EQ(Launch(stream_, 1, 1, Add, 1, 1.0f, &on_host), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(on_host, 0);
  EXPECT_THAT(LastKernelFault(), HasSubstr("a pointer that is not to this GPU's memory"));
}

TEST_F(RuntimeStreamTest, NullAndTheEndOfMemoryArePointersOfTheGpu) {
  for (float* const pointer : {static_cast<float*>(nullptr), device_ + kCount}) {
    EXPECT_EQ(Launch(stream_, 1, 1, Add, 0, 1.0f, pointer), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
}

TEST_F(RuntimeStreamTest, MuchDynamicSharedMemoryIsRefused) {
  cudaLaunchConfig_t config = {};
  config.stream = stream_;
  config.dynamicSmemBytes = (48 << 10) + 1;
  EXPECT_EQ(cudaLaunchKernelEx(&config, Add, 0, 1.0f, device_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(RuntimeStreamTest, StreamsBelongToTheirGpu) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(Launch(stream_, 1, 1, Add, kCount, 1.0f, device_), cudaErrorInvalidResourceHandle);
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(device_, 0, 4, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventRecord(event_, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(RuntimeStreamTest, UnknownHandlesAreRefused) {
  cudaStream_t ended;
  ASSERT_EQ(cudaStreamCreateWithFlags(&ended, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(ended), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(ended), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(ended), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event_, nullptr), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace emulator
}  // namespace capstan
