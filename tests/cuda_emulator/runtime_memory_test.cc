#include <cuda_runtime.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/runtime_test_util.h"

namespace capstan {
namespace emulator {
namespace {

using ::testing::Each;
using ::testing::IsNan;

using RuntimeMemoryTest = RuntimeTest;

TEST_F(RuntimeMemoryTest, ACopyTakesWhatIsThereWhenItsTurnComes) {
  ASSERT_EQ(HoldUp(stream_), cudaSuccess);
  ASSERT_EQ(CopyToDevice(stream_), cudaSuccess);
  std::fill(host_, host_ + kCount, 7.0f);
  OpenGate();
  std::fill(host_, host_ + kCount, 0.0f);
  ASSERT_EQ(CopyToHost(stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(host_[17], 7.0f);
}

TEST_F(RuntimeMemoryTest, NewDeviceMemoryIsNaN) {
  ASSERT_EQ(CopyToHost(stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_THAT(std::vector<float>(host_, host_ + kCount), Each(IsNan()));
}

TEST_F(RuntimeMemoryTest, MemoryEndsWhereTheOptionsSay) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_EQ(total_bytes, size_t{1} << 20);
  EXPECT_EQ(free_bytes, total_bytes - kBytes);
  void* all = nullptr;
  EXPECT_EQ(cudaMalloc(&all, free_bytes + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&all, free_bytes), cudaSuccess);
  EXPECT_EQ(cudaFree(all), cudaSuccess);
}

TEST_F(RuntimeMemoryTest, PageLockedMemoryEndsWhereTheOptionsSay) {
  void* data = nullptr;
  EXPECT_EQ(cudaHostAlloc(&data, size_t{1} << 20, cudaHostAllocPortable),
            cudaErrorMemoryAllocation);
}

TEST_F(RuntimeMemoryTest, FreeingWaitsForWhatIsQueued) {
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, kBytes), cudaSuccess);
  ASSERT_EQ(HoldUp(stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host_, data, kBytes, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  const size_t before = AllocatedBytes(0);
  std::thread opener([&] {
    while (AllocatedBytes(0) == before) std::this_thread::yield();  // until cudaFree has begun
    gate_.Open();
  });

  EXPECT_EQ(cudaFree(data), cudaSuccess);

  EXPECT_THAT(std::vector<float>(host_, host_ + kCount), Each(IsNan()));
  opener.join();
  gate_ = Gate();
}

TEST_F(RuntimeMemoryTest, MemoryIsFreedAsWhatItIs) {
  EXPECT_EQ(cudaFree(host_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(device_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device_ + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(RuntimeMemoryTest, ACopyBeyondTheMemoryIsRefused) {
  EXPECT_EQ(cudaMemcpyAsync(device_ + 1, host_, kBytes, cudaMemcpyHostToDevice, stream_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device_, 0, kBytes + 1, stream_), cudaErrorInvalidValue);
}

TEST_F(RuntimeMemoryTest, ACopyInTheWrongDirectionIsRefused) {
  EXPECT_EQ(cudaMemcpyAsync(device_, host_, 4, cudaMemcpyDeviceToHost, stream_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host_, device_, 4, cudaMemcpyHostToDevice, stream_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(device_, host_, 4, cudaMemcpyDeviceToDevice, stream_),
            cudaErrorInvalidValue);
}

TEST_F(RuntimeMemoryTest, AFailedCopyIsToldLater) {
  FailCopy(/*skip=*/0);
  ASSERT_EQ(CopyToDevice(stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
}

}  // namespace
}  // namespace emulator
}  // namespace capstan
