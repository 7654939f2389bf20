#include "kernels/cuda/pinned_pool.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan {
namespace {

using ::testing::StartsWith;

std::unique_ptr<CudaDevice> OpenGpu() { return CudaDevice::Open(0).value(); }

TEST(PinnedPoolTest, RoundsUpTo256) {
  EXPECT_EQ(PinnedPool::RoundUp(0), 0u);
  EXPECT_EQ(PinnedPool::RoundUp(1), 256u);
  EXPECT_EQ(PinnedPool::RoundUp(256), 256u);
  EXPECT_EQ(PinnedPool::RoundUp(257), 512u);
}

TEST(PinnedPoolTest, PartsLieApartAndAreZero) {
  const auto device = OpenGpu();
  const auto pool = PinnedPool::Create(*device, 1024).value();
  char* const first = static_cast<char*>(pool->Take(100).value());
  char* const second = static_cast<char*>(pool->Take(256).value());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
  EXPECT_EQ(second - first, 256);
  EXPECT_EQ(std::count(first, first + 512, 0), 512);
}

TEST(PinnedPoolTest, TakingMoreThanIsLeftIsTold) {
  const auto device = OpenGpu();
  const auto pool = PinnedPool::Create(*device, 1000).value();
  EXPECT_EQ(pool->size_bytes(), 1024u);
  ASSERT_TRUE(pool->Take(600).ok());
  const absl::Status status = pool->Take(257).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("page-locked memory: expected 512 bytes to be left of 1024, got 256; "));
  EXPECT_TRUE(pool->Take(256).ok()) << "what is left can still be taken";
  EXPECT_FALSE(pool->Take(1).ok());
}

TEST(PinnedPoolTest, ThreadsTakeDifferentParts) {
  constexpr int kParts = 64;
  const auto device = OpenGpu();
  const auto pool = PinnedPool::Create(*device, 2 * kParts * 256).value();
  std::vector<char*> parts(2 * kParts);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kParts; ++i)
        parts[t * kParts + i] = static_cast<char*>(pool->Take(256).value());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::sort(parts.begin(), parts.end());
  for (int i = 0; i < 2 * kParts; ++i) EXPECT_EQ(parts[i] - parts[0], i * 256);
}

TEST(PinnedPoolTest, AnEmptyPoolHasNothing) {
  const auto device = OpenGpu();
  const auto pool = PinnedPool::Create(*device, 0).value();
  EXPECT_FALSE(pool->Take(1).ok());
}

}  // namespace
}  // namespace capstan
