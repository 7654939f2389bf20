#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/launch_test_kernels.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

class LaunchTest : public ::testing::Test {
 protected:
  DeviceBuffer Allocate(size_t floats) {
    DeviceBuffer buffer =
        DeviceBuffer::Allocate(*device_, floats * sizeof(float), "the test").value();
    EXPECT_TRUE(stream_->SetBytes(0xff, buffer.size_bytes(), buffer.data<void>()).ok());
    return buffer;
  }

  std::vector<float> Download(const DeviceBuffer& buffer) {
    std::vector<float> values(buffer.size_bytes() / sizeof(float));
    EXPECT_TRUE(stream_->CopyToHost(buffer.data<void>(), buffer.size_bytes(), values.data()).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
    return values;
  }

  const std::unique_ptr<CudaDevice> device_ = CudaDevice::Open(0).value();
  const std::unique_ptr<CudaStream> stream_ =
      CudaStream::Create(*device_, CudaStream::Blas::kNone).value();
};

TEST_F(LaunchTest, AGridStrideLoopReachesEveryElementOnce) {
  for (int64_t count : {1, 31, 256, 257, 100'003}) {
    for (int threads : {32, 256, 1024}) {
      const DeviceBuffer buffer = Allocate(count);
      ASSERT_TRUE(WriteMultiples(count, threads, 0.5f, buffer.data<float>(), *stream_).ok());
      const std::vector<float> values = Download(buffer);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(values[i], static_cast<float>(i) * 0.5f) << count << " " << threads;
    }
  }
}

TEST_F(LaunchTest, BlocksSumByShufflesAndABarrier) {
  constexpr int kBlocks = 9;
  const DeviceBuffer values = Allocate(kBlocks * 256);
  const DeviceBuffer sums = Allocate(kBlocks);
  ASSERT_TRUE(WriteMultiples(kBlocks * 256, 256, 1.0f, values.data<float>(), *stream_).ok());
  ASSERT_TRUE(
      SumBlocks(kBlocks, /*threads=*/256, values.data<float>(), sums.data<float>(), *stream_).ok());
  const std::vector<float> got = Download(sums);
  // Whole numbers below 2^24: exact.
  for (int block = 0; block < kBlocks; ++block)
    EXPECT_EQ(got[block], static_cast<float>(256 * (block * 256) + 255 * 256 / 2)) << block;
}

TEST_F(LaunchTest, NoBlocksAreNothingToDo) {
  EXPECT_TRUE(WriteMultiples(0, 256, 1.0f, nullptr, *stream_).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_F(LaunchTest, BlocksForAllItemsUpToABoundForTheGpu) {
  const int64_t multiprocessors = device_->multiprocessor_count();
  EXPECT_EQ(BlocksFor(0, 256, *stream_), 0);
  EXPECT_EQ(BlocksFor(1, 256, *stream_), 1);
  EXPECT_EQ(BlocksFor(257, 256, *stream_), 2);
  EXPECT_EQ(BlocksFor(int64_t{1} << 40, 256, *stream_), 64 * multiprocessors);
  EXPECT_EQ(BlocksFor(int64_t{1} << 40, 1024, *stream_), 64 * multiprocessors);
}

TEST_F(LaunchTest, ALaunchThatCudaRefusesIsTold) {
  const absl::Status many_threads = WriteMultiples(1, 2048, 1.0f, nullptr, *stream_);
  EXPECT_EQ(many_threads.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(many_threads.message(),
              HasSubstr("write multiples: launch of 1 blocks of 2048 threads on cuda:0 ("));
  const absl::Status many_blocks =
      SumBlocks((int64_t{1} << 32) + 1, /*threads=*/256, nullptr, nullptr, *stream_);
  EXPECT_THAT(many_blocks.message(), HasSubstr("sum blocks: launch of "));
  EXPECT_THAT(many_blocks.message(), HasSubstr("cudaErrorInvalid"));  // which one depends on CUDA
  EXPECT_TRUE(stream_->Synchronize().ok()) << "the GPU is not lost";
}

}  // namespace
}  // namespace capstan
