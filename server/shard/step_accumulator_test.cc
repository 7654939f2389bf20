#include "server/shard/step_accumulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/random.h"

namespace capstan {
namespace {

HostBuffer Gradient(StepAccumulator& accumulator, const std::vector<float>& values) {
  HostBuffer buffer = accumulator.TakeBuffer();
  std::copy(values.begin(), values.end(), buffer.data());
  return buffer;
}

TEST(StepAccumulatorTest, MeanHasTheSameBitsWhateverTheOrderOfArrival) {
  const uint64_t seed = 11;
  Random random(seed);
  const size_t size = 33;
  std::vector<std::vector<float>> gradients(5, std::vector<float>(size));
  for (auto& gradient : gradients) {
    for (float& value : gradient) value = random.Normal() * 1e3f;
  }
  std::vector<int> order = {0, 1, 2, 3, 4};
  do {
    StepAccumulator accumulator(size);
    for (const int worker : order) {
      accumulator.Add(Step(0), WorkerId(worker), Gradient(accumulator, gradients[worker]));
    }
    const HostBuffer buffer = accumulator.TakeMean(Step(0));
    const absl::Span<const float> mean = buffer.span();
    for (size_t i = 0; i < size; ++i) {
      float sum = gradients[0][i];
      for (int worker = 1; worker < 5; ++worker) sum += gradients[worker][i];
      EXPECT_EQ(mean[i], sum / 5.0f) << "seed " << seed;
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(StepAccumulatorTest, StepsAreKeptApart) {
  StepAccumulator accumulator(1);
  accumulator.Add(Step(4), WorkerId(0), Gradient(accumulator, {1}));
  accumulator.Add(Step(5), WorkerId(1), Gradient(accumulator, {10}));
  accumulator.Add(Step(4), WorkerId(1), Gradient(accumulator, {3}));
  EXPECT_EQ(accumulator.TakeMean(Step(4)).span()[0], 2.0f);
  EXPECT_FALSE(accumulator.Has(Step(4)));
  EXPECT_EQ(accumulator.TakeMean(Step(5)).span()[0], 10.0f);
}

TEST(StepAccumulatorTest, GradientsAreTakenOneByOneInOrderOfStepAndWorker) {
  StepAccumulator accumulator(1);
  EXPECT_FALSE(accumulator.First().has_value());
  accumulator.Add(Step(4), WorkerId(0), Gradient(accumulator, {40}));
  accumulator.Add(Step(3), WorkerId(2), Gradient(accumulator, {32}));
  accumulator.Add(Step(3), WorkerId(1), Gradient(accumulator, {31}));
  for (const float expected : {31.0f, 32.0f, 40.0f}) {
    const Step step = accumulator.First().value();
    EXPECT_EQ(accumulator.TakeOne(step).span()[0], expected);
  }
  EXPECT_FALSE(accumulator.First().has_value());
}

}  // namespace
}  // namespace capstan
