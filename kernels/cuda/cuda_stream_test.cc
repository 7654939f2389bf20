#include "kernels/cuda/cuda_stream.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_event.h"
#include "kernels/cuda/pinned_pool.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

// Large enough that a copy is still under way when the next call is made.
constexpr size_t kCount = 1 << 20;
constexpr size_t kBytes = kCount * sizeof(float);

// A GPU with two streams, two device arrays and two page-locked ones of kCount floats.
class CudaStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = CudaDevice::Open(0).value();
    stream_ = CudaStream::Create(*device_, CudaStream::Blas::kNone).value();
    other_stream_ = CudaStream::Create(*device_, CudaStream::Blas::kNone).value();
    on_device_ = DeviceBuffer::Allocate(*device_, kBytes, "the test").value();
    also_on_device_ = DeviceBuffer::Allocate(*device_, kBytes, "the test").value();
    pool_ = PinnedPool::Create(*device_, 2 * kBytes).value();
    input_ = static_cast<float*>(pool_->Take(kBytes).value());
    output_ = static_cast<float*>(pool_->Take(kBytes).value());
    std::iota(input_, input_ + kCount, 1.0f);
  }

  std::unique_ptr<CudaDevice> device_;
  std::shared_ptr<PinnedPool> pool_;
  DeviceBuffer on_device_;
  DeviceBuffer also_on_device_;
  std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<CudaStream> other_stream_;
  float* input_;
  float* output_;
};

TEST_F(CudaStreamTest, WhatIsCopiedThereAndBackIsTheSame) {
  float* const first = on_device_.data<float>();
  float* const second = also_on_device_.data<float>();
  ASSERT_TRUE(stream_->CopyToDevice(input_, kBytes, first).ok());
  ASSERT_TRUE(stream_->CopyOnDevice(first, kBytes, second).ok());
  ASSERT_TRUE(stream_->CopyToHost(second, kBytes, output_).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(std::equal(input_, input_ + kCount, output_));
}

TEST_F(CudaStreamTest, SetBytesSetsThoseAlone) {
  char* const data = on_device_.data<char>();
  ASSERT_TRUE(stream_->SetBytes(1, kBytes, data).ok());
  ASSERT_TRUE(stream_->SetBytes(2, 6, data + 3).ok());
  ASSERT_TRUE(stream_->CopyToHost(data, 12, output_).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  const char* const bytes = reinterpret_cast<const char*>(output_);
  EXPECT_THAT(std::vector<char>(bytes, bytes + 12),
              ElementsAre(1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 1, 1));
}

TEST_F(CudaStreamTest, NoBytesAreNothingToDo) {
  EXPECT_TRUE(stream_->CopyToDevice(nullptr, 0, nullptr).ok());
  EXPECT_TRUE(stream_->CopyToHost(nullptr, 0, nullptr).ok());
  EXPECT_TRUE(stream_->SetBytes(0, 0, nullptr).ok());
}

TEST_F(CudaStreamTest, AStreamThatWaitsForAnEventSeesWhatCameBeforeIt) {
  CudaEvent uploaded = CudaEvent::Create(*device_, CudaEvent::Timing::kOff).value();
  for (int round = 0; round < 8; ++round) {
    std::fill(input_, input_ + kCount, static_cast<float>(round));
    ASSERT_TRUE(stream_->CopyToDevice(input_, kBytes, on_device_.data<void>()).ok());
    ASSERT_TRUE(uploaded.Record(*stream_).ok());
    ASSERT_TRUE(other_stream_->WaitFor(uploaded).ok());
    ASSERT_TRUE(other_stream_->CopyToHost(on_device_.data<void>(), kBytes, output_).ok());
    ASSERT_TRUE(other_stream_->Synchronize().ok());
    ASSERT_EQ(std::count(output_, output_ + kCount, static_cast<float>(round)), ptrdiff_t{kCount});
  }
}

TEST_F(CudaStreamTest, WaitingForAnEventIsEnoughToReadWhatWasCopied) {
  CudaEvent done = CudaEvent::Create(*device_, CudaEvent::Timing::kOff).value();
  ASSERT_TRUE(stream_->CopyToDevice(input_, kBytes, on_device_.data<void>()).ok());
  ASSERT_TRUE(stream_->CopyToHost(on_device_.data<void>(), kBytes, output_).ok());
  ASSERT_TRUE(done.Record(*stream_).ok());
  ASSERT_TRUE(done.Wait().ok());
  EXPECT_TRUE(std::equal(input_, input_ + kCount, output_));
}

TEST_F(CudaStreamTest, AnEventThatWasNeverRecordedHoldsNobodyUp) {
  const CudaEvent event = CudaEvent::Create(*device_, CudaEvent::Timing::kOff).value();
  EXPECT_TRUE(event.Wait().ok());
  EXPECT_TRUE(stream_->WaitFor(event).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_F(CudaStreamTest, TheTimeBetweenTwoEventsIsThatOfTheWorkBetween) {
  CudaEvent begin = CudaEvent::Create(*device_, CudaEvent::Timing::kOn).value();
  CudaEvent end = CudaEvent::Create(*device_, CudaEvent::Timing::kOn).value();
  ASSERT_TRUE(begin.Record(*stream_).ok());
  ASSERT_TRUE(stream_->CopyToDevice(input_, kBytes, on_device_.data<void>()).ok());
  ASSERT_TRUE(end.Record(*stream_).ok());
  ASSERT_TRUE(end.Wait().ok());
  const auto time = CudaEvent::Between(begin, end);
  ASSERT_TRUE(time.ok()) << time.status();
  // Faster than any bus copies 4 MiB, slower than any clock is wrong.
  EXPECT_GT(*time, absl::Microseconds(1));
  EXPECT_LT(*time, absl::Minutes(1));
}

TEST_F(CudaStreamTest, BetweenEventsWithoutTimingIsAnError) {
  CudaEvent event = CudaEvent::Create(*device_, CudaEvent::Timing::kOff).value();
  ASSERT_TRUE(event.Record(*stream_).ok());
  ASSERT_TRUE(event.Wait().ok());
  EXPECT_FALSE(CudaEvent::Between(event, event).ok());
}

TEST_F(CudaStreamTest, AMovedEventIsTheSameMark) {
  CudaEvent first = CudaEvent::Create(*device_, CudaEvent::Timing::kOn).value();
  ASSERT_TRUE(first.Record(*stream_).ok());
  CudaEvent second = std::move(first);
  EXPECT_EQ(first.get(), nullptr);
  first = std::move(second);
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(CudaEvent::Between(first, first).ok());
}

TEST_F(CudaStreamTest, ItsEndWaitsForWhatIsQueued) {
  ASSERT_TRUE(stream_->CopyToDevice(input_, kBytes, on_device_.data<void>()).ok());
  ASSERT_TRUE(stream_->CopyToHost(on_device_.data<void>(), kBytes, output_).ok());
  stream_.reset();
  EXPECT_TRUE(std::equal(input_, input_ + kCount, output_));
}

TEST_F(CudaStreamTest, OnlyAStreamForGemmHasBlas) {
  EXPECT_EQ(stream_->blas(), nullptr);
  const auto with_blas = CudaStream::Create(*device_, CudaStream::Blas::kWithWorkspace);
  ASSERT_TRUE(with_blas.ok()) << with_blas.status();
  EXPECT_NE((*with_blas)->blas(), nullptr);
  EXPECT_EQ(&(*with_blas)->device(), device_.get());
}

}  // namespace
}  // namespace capstan
