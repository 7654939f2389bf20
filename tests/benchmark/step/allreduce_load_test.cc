#include "tests/benchmark/step/allreduce_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace capstan {
namespace {

AllreduceLoad SmallLoad() {
  AllreduceLoad load;
  load.bytes = 4000;
  load.steps = 4;
  return load;
}

// The result of an all-reduce of two processes.
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

TEST(StepGradientTest, SumOfAllWorkersIsWhatIsChecked) {
  std::vector<float> sum(1000), gradient(1000);
  for (int worker = 0; worker < 3; ++worker) {
    FillGradient(worker, absl::MakeSpan(gradient));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }
  EXPECT_EQ(SumOfGradients(3), 6);
  EXPECT_TRUE(CheckPattern(sum, SumOfGradients(3)).ok()) << CheckPattern(sum, SumOfGradients(3));
}

TEST(StepGradientTest, WrongValueIsNamed) {
  std::vector<float> gradient(100);
  FillGradient(/*worker=*/1, absl::MakeSpan(gradient));
  std::swap(gradient[8], gradient[9]);
  EXPECT_EQ(CheckPattern(gradient, 2).message(), "element 8 is wrong: expected 4, got 6");
}

TEST(StepGradientTest, MissingWorkerIsSeen) {
  std::vector<float> gradient(100);
  FillGradient(/*worker=*/0, absl::MakeSpan(gradient));
  EXPECT_FALSE(CheckPattern(gradient, SumOfGradients(2)).ok());
}

}  // namespace
}  // namespace capstan
