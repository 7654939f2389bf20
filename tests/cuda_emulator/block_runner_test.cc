#include "tests/cuda_emulator/block_runner.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan {
namespace emulator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr unsigned kAllLanes = ~0u;

std::string RunKernel(dim3 grid, dim3 block, const std::function<void()>& thread) {
  BlockRunner blocks;
  return blocks.Run(grid, block, thread);
}

int LinearThread() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

TEST(DeviceCodeTest, ExponentialsAreOffByUpToTwoUnits) {
  double largest = 0;
  for (int i = -4000; i < 4000; ++i) {
    const float x = 0.02f * static_cast<float>(i);
    const double exact = std::exp(static_cast<double>(x));
    const auto nearest = static_cast<float>(exact);
    const double unit = static_cast<double>(std::nextafter(nearest, INFINITY)) - nearest;
    largest = std::max(largest, std::abs(static_cast<double>(RoughExponential(x)) - exact) / unit);
  }
  EXPECT_GT(largest, 1.5);
  EXPECT_LE(largest, 2);
  EXPECT_EQ(RoughExponential(0), 1);
  EXPECT_EQ(RoughExponential(-INFINITY), 0);
  EXPECT_EQ(RoughExponential(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(RoughExponential(NAN)));
}

TEST(BlockRunnerTest, EachThreadOfEachBlockRunsOnce) {
  const dim3 grid(3, 2, 2);
  const dim3 block(5, 4, 3);
  std::vector<int> runs(3 * 2 * 2 * 5 * 4 * 3, 0);

  const std::string fault = RunKernel(grid, block, [&] {
    const unsigned block_number = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    ++runs.at(block_number * 60 + static_cast<unsigned>(LinearThread()));
  });

  EXPECT_EQ(fault, "");
  EXPECT_EQ(runs, std::vector<int>(runs.size(), 1));
}

TEST(BlockRunnerTest, EveryOtherBlockStartsFromTheLastThread) {
  std::vector<unsigned> order;
  RunKernel(2, 3, [&] { order.push_back(threadIdx.x); });
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 2, 1, 0));
}

void Reverse(int* values) {
  __shared__ int shared[1024];
  int* const own = values + blockIdx.x * blockDim.x;
  shared[threadIdx.x] = own[threadIdx.x];
  __syncthreads();
  own[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST(BlockRunnerTest, BehindABarrierEachSeesWhatAllWroteBefore) {
  for (int threads : {1, 31, 32, 33, 256, 1024}) {
    std::vector<int> values(3 * threads);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);

    ASSERT_EQ(RunKernel(3, threads, [&] { Reverse(values.data()); }), "");

    for (int i = 0; i < 3 * threads; ++i)
      ASSERT_EQ(values[i], i / threads * threads + threads - 1 - i % threads) << threads;
  }
}

// The sum of 0 to threads - 1, as reductions do it: a barrier for each halving.
void Sum(int* sums) {
  __shared__ int shared[1024];
  const unsigned thread = threadIdx.x;
  shared[thread] = static_cast<int>(thread);
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) shared[thread] += shared[thread + half];
  }
  if (thread == 0) sums[blockIdx.x] = shared[0];
}

TEST(BlockRunnerTest, ManyBarriersInALoop) {
  std::vector<int> sums(4, -1);
  ASSERT_EQ(RunKernel(4, 512, [&] { Sum(sums.data()); }), "");
  EXPECT_EQ(sums, std::vector<int>(4, 512 * 511 / 2));
}

TEST(BlockRunnerTest, ABarrierDoesNotWaitForThreadsThatHaveEnded) {
  int after = 0;
  const std::string fault = RunKernel(2, 100, [&] {
    if (threadIdx.x % 3 == 0) return;
    __syncthreads();
    ++after;
    if (threadIdx.x % 3 == 1) return;
    __syncthreads();
    ++after;
  });
  EXPECT_EQ(fault, "");
  EXPECT_EQ(after, 2 * (66 + 33));
}

TEST(BlockRunnerTest, XorShufflesGiveEachLaneTheSum) {
  std::vector<float> sums(96, -1);
  const std::string fault = RunKernel(1, 96, [&] {
    float value = static_cast<float>(threadIdx.x);
    for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(kAllLanes, value, mask);
    sums[threadIdx.x] = value;
  });
  ASSERT_EQ(fault, "");
  for (int i = 0; i < 96; ++i) EXPECT_EQ(sums[i], 32 * 31 / 2 + i / 32 * 32 * 32) << i;
}

TEST(BlockRunnerTest, ADownShuffleBeyondTheWarpGivesTheOwnValue) {
  std::vector<double> got(32);
  const std::string fault = RunKernel(
      1, 32, [&] { got[threadIdx.x] = __shfl_down_sync(kAllLanes, 100.5 + threadIdx.x, 4); });
  ASSERT_EQ(fault, "");
  for (int i = 0; i < 32; ++i) EXPECT_EQ(got[i], 100.5 + (i < 28 ? i + 4 : i)) << i;
}

TEST(BlockRunnerTest, ALaneThatIsNotThereBringsNaN) {
  std::vector<float> got(20, 0);
  const std::string fault =
      RunKernel(1, 20, [&] { got[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1.0f, 16); });
  ASSERT_EQ(fault, "");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(got[i]), i >= 4 && i < 16) << i;
}

TEST(BlockRunnerTest, WarpsShuffleAtTheirOwnPace) {
  std::vector<int> got(64, 0);
  const std::string fault = RunKernel(1, 64, [&] {
    const int rounds = threadIdx.x < 32 ? 1 : 5;
    int value = static_cast<int>(threadIdx.x % 32);
    for (int i = 0; i < rounds; ++i) value = __shfl_down_sync(kAllLanes, value, 1);
    __syncthreads();
    got[threadIdx.x] = value;
  });
  ASSERT_EQ(fault, "");
  for (int i = 0; i < 64; ++i) EXPECT_EQ(got[i], std::min(i % 32 + (i < 32 ? 1 : 5), 31)) << i;
}

TEST(BlockRunnerTest, AtomicAdditionsGiveWhatWasThereBefore) {
  unsigned sum = 5;
  std::vector<int> seen(5 + 3 * 40, 0);
  ASSERT_EQ(RunKernel(3, 40, [&] { ++seen.at(atomicAdd(&sum, 1u)); }), "");
  EXPECT_EQ(sum, 5u + 3 * 40);
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i < 5 ? 0 : 1) << i;
}

TEST(BlockRunnerTest, ThreadsThatWaitForEverAreAFault) {
  const std::string fault = RunKernel(3, 64, [&] {
    if (blockIdx.x < 2) return;
    if (threadIdx.x % 2 == 0) {
      __syncthreads();
    } else {
      __shfl_xor_sync(kAllLanes, 1, 1);
    }
  });
  EXPECT_EQ(fault,
            "block 2: 32 of 64 threads wait at a barrier, 16 of 32 of warp 0 in a shuffle, 16 of "
            "32 of warp 1 in a shuffle; none can go on");
}

TEST(BlockRunnerTest, AShuffleOfSomeLanesIsAFault) {
  const std::string fault = RunKernel(1, 32, [&] { __shfl_xor_sync(0xffffu, 1, 1); });
  EXPECT_THAT(fault, HasSubstr("block 0: a shuffle has the mask ffff"));
}

TEST(BlockRunnerTest, DifferentShufflesInOneWarpAreAFault) {
  const std::string fault = RunKernel(1, 32, [&] {
    if (threadIdx.x < 7) {
      __shfl_xor_sync(kAllLanes, 1, 1);
    } else {
      __shfl_down_sync(kAllLanes, 1, 1);
    }
  });
  EXPECT_THAT(fault, HasSubstr("warp 0 are in different kinds of shuffle"));
}

TEST(BlockRunnerTest, MoreThreadsThanLaunchBoundsAreAFault) {
  int runs = 0;
  const auto thread = [&] {
    CheckLaunchBounds(/*max_threads=*/64);
    ++runs;
  };
  EXPECT_EQ(RunKernel(2, dim3(16, 4), thread), "");
  EXPECT_EQ(runs, 128);
  EXPECT_EQ(RunKernel(2, dim3(13, 5), thread),
            "block 0: a block has 65 threads; the kernel's launch bounds are 64");
  EXPECT_EQ(runs, 128);
}

TEST(BlockRunnerTest, RunsOnAfterAFault) {
  BlockRunner blocks;
  const std::string fault = blocks.Run(1, 2, [&] {
    if (threadIdx.x == 0) __shfl_xor_sync(kAllLanes, 1, 1);
    __syncthreads();
  });
  ASSERT_THAT(fault, HasSubstr("none can go on"));

  int after = 0;
  EXPECT_EQ(blocks.Run(2, 300,
                       [&] {
                         __syncthreads();
                         ++after;
                       }),
            "");
  EXPECT_EQ(after, 600);
}

TEST(BlockRunnerDeathTest, DeviceCodeOutsideOfAKernelDies) {
  EXPECT_DEATH(__syncthreads(), "outside of a kernel");
}

}  // namespace
}  // namespace emulator
}  // namespace capstan
