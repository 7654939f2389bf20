#include "server/shard/step_accumulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/random.h"

namespace capstan {
namespace {

HostBuffer Gradient(StepAccumulator& accumulator, const std::vector<float>& values) {
  HostBuffer buffer = accumulator.TakeBuffer(/*codec=*/nullptr);
  std::copy(values.begin(), values.end(), buffer.data());
  return buffer;
}

std::vector<float> TakeMean(StepAccumulator& accumulator, Step step) {
  std::vector<float> mean;
  accumulator.TakeMean(step, [&mean](size_t offset, absl::Span<const float> block) {
    EXPECT_EQ(offset, mean.size());
    mean.insert(mean.end(), block.begin(), block.end());
  });
  return mean;
}

TEST(StepAccumulatorTest, MeanHasTheSameBitsWhateverTheOrderOfArrival) {
  const uint64_t seed = 11;
  Random random(seed);
  const size_t size = 10000;  // several blocks, and a part of one
  std::vector<std::vector<float>> gradients(5, std::vector<float>(size));
  for (auto& gradient : gradients) {
    for (float& value : gradient) value = random.Normal() * 1e3f;
  }
  std::vector<float> expected = gradients[0];
  for (size_t i = 0; i < size; ++i) {
    for (int worker = 1; worker < 5; ++worker) expected[i] += gradients[worker][i];
    expected[i] /= 5.0f;
  }
  std::vector<int> order = {0, 1, 2, 3, 4};
  do {
    StepAccumulator accumulator(size);
    for (const int worker : order) {
      accumulator.Add(Step(0), WorkerId(worker),
                      {Gradient(accumulator, gradients[worker]), std::nullopt, nullptr});
    }
    EXPECT_EQ(TakeMean(accumulator, Step(0)), expected) << "seed " << seed;
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(StepAccumulatorTest, StepsAreKeptApart) {
  StepAccumulator accumulator(1);
  accumulator.Add(Step(4), WorkerId(0), {Gradient(accumulator, {1}), std::nullopt, nullptr});
  accumulator.Add(Step(5), WorkerId(1), {Gradient(accumulator, {10}), std::nullopt, nullptr});
  accumulator.Add(Step(4), WorkerId(1), {Gradient(accumulator, {3}), std::nullopt, nullptr});
  EXPECT_EQ(TakeMean(accumulator, Step(4)), std::vector<float>{2});
  EXPECT_FALSE(accumulator.Has(Step(4)));
  EXPECT_EQ(TakeMean(accumulator, Step(5)), std::vector<float>{10});
}

TEST(StepAccumulatorTest, GradientsAreTakenOneByOneInOrderOfStepAndWorker) {
  StepAccumulator accumulator(1);
  EXPECT_FALSE(accumulator.First().has_value());
  accumulator.Add(Step(4), WorkerId(0), {Gradient(accumulator, {40}), std::nullopt, nullptr});
  accumulator.Add(Step(3), WorkerId(2), {Gradient(accumulator, {32}), std::nullopt, nullptr});
  accumulator.Add(Step(3), WorkerId(1), {Gradient(accumulator, {31}), std::nullopt, nullptr});
  for (const float expected : {31.0f, 32.0f, 40.0f}) {
    const Step step = accumulator.First().value();
    EXPECT_EQ(accumulator.TakeOne(step).gradient.span()[0], expected);
  }
  EXPECT_FALSE(accumulator.First().has_value());
}

TEST(StepAccumulatorTest, AnEmptyPushHasTheBitsOfZerosInTheMean) {
  const uint64_t seed = 12;
  Random random(seed);
  const size_t size = 5000;  // a block, and a part of one
  std::vector<std::vector<float>> gradients(3, std::vector<float>(size));
  for (auto& gradient : gradients) {
    for (float& value : gradient) value = random.Normal() * 1e3f;
    gradient[7] = -0.0f;
  }
  for (int empty = 0; empty < 3; ++empty) {
    StepAccumulator accumulator(size);
    std::vector<float> expected(size);  // of a gradient of zeros
    for (int worker = 0; worker < 3; ++worker) {
      StepAccumulator::Kept push;
      if (worker != empty) push.gradient = Gradient(accumulator, gradients[worker]);
      accumulator.Add(Step(0), WorkerId(worker), std::move(push));
      for (size_t i = 0; i < size; ++i) expected[i] += worker == empty ? 0 : gradients[worker][i];
    }
    for (float& value : expected) value /= 3.0f;
    const std::vector<float> mean = TakeMean(accumulator, Step(0));
    EXPECT_EQ(std::memcmp(mean.data(), expected.data(), size * sizeof(float)), 0)
        << "worker " << empty << " has none, seed " << seed;
  }
}

TEST(StepAccumulatorTest, TheFirstGradientIsThatOfTheSmallestWorkerThatHasOne) {
  StepAccumulator accumulator(1);
  EXPECT_EQ(accumulator.FirstGradient(Step(4)), nullptr);
  accumulator.Add(Step(4), WorkerId(0), {});
  EXPECT_EQ(accumulator.FirstGradient(Step(4)), nullptr);
  accumulator.Add(Step(4), WorkerId(2), {Gradient(accumulator, {2}), {}, nullptr, 0.2});
  accumulator.Add(Step(4), WorkerId(1), {Gradient(accumulator, {1}), {}, nullptr, 0.1});
  ASSERT_NE(accumulator.FirstGradient(Step(4)), nullptr);
  EXPECT_EQ(accumulator.FirstGradient(Step(4))->learning_rate, 0.1);
}

TEST(StepAccumulatorTest, EmptyPushesHoldNoMemoryAndCanBeDropped) {
  StepAccumulator accumulator(1000);
  accumulator.Add(Step(0), WorkerId(0), {});
  accumulator.Add(Step(1), WorkerId(0), {});
  EXPECT_EQ(accumulator.size_bytes(), 0u);
  EXPECT_TRUE(accumulator.Has(Step(0)));
  accumulator.Drop(Step(0));
  EXPECT_FALSE(accumulator.Has(Step(0)));
  EXPECT_TRUE(accumulator.TakeOne(Step(1)).is_empty());
  EXPECT_FALSE(accumulator.First().has_value());
}

}  // namespace
}  // namespace capstan
