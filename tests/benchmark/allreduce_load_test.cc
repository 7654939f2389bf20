#include "tests/benchmark/allreduce_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/benchmark/step_gradient.h"

namespace capstan {
namespace {

AllreduceLoad SmallLoad() {
  AllreduceLoad load;
  load.bytes = 4000;
  load.steps = 4;
  return load;
}

// What an all-reduce of two processes leaves.
void Sum(absl::Span<float> values) {
  for (float& value : values) value *= static_cast<float>(SumOfGradients(2));
}

TEST(AllreduceLoadTest, TimesTheAllreduceAlone) {
  int barriers = 0;
  const absl::StatusOr<StepTimes> times = RunAllreduces(
      SmallLoad(), /*rank=*/0, [&barriers] { ++barriers; },
      [](absl::Span<float> values) {
        absl::SleepFor(absl::Milliseconds(2));
        Sum(values);
      });
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(*times, testing::SizeIs(4));
  EXPECT_THAT(*times, testing::Each(testing::Ge(0.002)));
  EXPECT_EQ(barriers, 3 + 4);
}

TEST(AllreduceLoadTest, WrongSumIsAnError) {
  const absl::StatusOr<StepTimes> times = RunAllreduces(
      SmallLoad(), /*rank=*/0, [] {}, [](absl::Span<float> values) { Sum(values.subspan(1)); });
  EXPECT_EQ(times.status().message(), "element 0 is wrong: expected 3, got 1");
}

TEST(AllreduceLoadTest, BytesMustBeWholeFloats) {
  AllreduceLoad load = SmallLoad();
  EXPECT_TRUE(load.Check().ok());
  load.bytes = 4001;
  EXPECT_FALSE(load.Check().ok());
  load.bytes = uint64_t{1} << 33;
  EXPECT_FALSE(load.Check().ok());
  load = SmallLoad();
  load.steps = 0;
  EXPECT_FALSE(load.Check().ok());
}

}  // namespace
}  // namespace capstan
