#include "tests/benchmark/straggler/straggler_pattern.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

using Kind = StragglerPattern::Kind;

constexpr absl::Duration kCompute = absl::Milliseconds(10);

StragglerPattern Pattern(Kind kind, uint64_t seed = 1) {
  StragglerPattern::Options options;
  options.kind = kind;
  options.compute = kCompute;
  options.seed = seed;
  return StragglerPattern(options);
}

// The number of steps with this compute time, among the worker's first 10,000.
int StepsOf(const StragglerPattern& pattern, int worker, absl::Duration time) {
  int count = 0;
  for (int step = 0; step < 10000; ++step) count += pattern.ComputeTime(worker, Step(step)) == time;
  return count;
}

TEST(StragglerPatternTest, WithoutStragglersAllStepsAreAlike) {
  EXPECT_EQ(StepsOf(Pattern(Kind::kNone), /*worker=*/3, kCompute), 10000);
}

TEST(StragglerPatternTest, OneWorkerIsAlwaysTwiceAsSlow) {
  const StragglerPattern pattern = Pattern(Kind::kOneSlow);
  EXPECT_EQ(StepsOf(pattern, /*worker=*/0, 2 * kCompute), 10000);
  EXPECT_EQ(StepsOf(pattern, /*worker=*/1, kCompute), 10000);
}

TEST(StragglerPatternTest, OneInTwentyStepsOfEachWorkerIsFiveTimesAsSlow) {
  const StragglerPattern pattern = Pattern(Kind::kRandomSlow);
  for (int worker = 0; worker < 8; ++worker) {
    // Binomial: 500 on average, with a standard deviation of 22.
    EXPECT_NEAR(StepsOf(pattern, worker, 5 * kCompute), 500, 5 * 22) << "worker " << worker;
  }
}

TEST(StragglerPatternTest, SlowStepsOfTwoWorkersAreIndependent) {
  const StragglerPattern pattern = Pattern(Kind::kRandomSlow);
  int both = 0;
  for (int step = 0; step < 10000; ++step) {
    both += pattern.ComputeTime(0, Step(step)) > kCompute &&
            pattern.ComputeTime(1, Step(step)) > kCompute;
  }
  // Binomial: 25 on average, with a standard deviation of 5.
  EXPECT_NEAR(both, 25, 4 * 5);
}

TEST(StragglerPatternTest, PausesAreOfOneWorker) {
  const StragglerPattern pattern = Pattern(Kind::kPauses);
  EXPECT_NEAR(StepsOf(pattern, /*worker=*/0, kCompute + absl::Seconds(2)), 100, 50);
  EXPECT_EQ(StepsOf(pattern, /*worker=*/1, kCompute), 10000);
}

TEST(StragglerPatternTest, TheSameSeedDrawsTheSameSteps) {
  int different = 0;
  for (int step = 0; step < 1000; ++step) {
    const absl::Duration time = Pattern(Kind::kRandomSlow).ComputeTime(2, Step(step));
    EXPECT_EQ(Pattern(Kind::kRandomSlow).ComputeTime(2, Step(step)), time);
    different += Pattern(Kind::kRandomSlow, /*seed=*/2).ComputeTime(2, Step(step)) != time;
  }
  EXPECT_GT(different, 0);
}

TEST(StragglerPatternTest, NamesAreReadBack) {
  for (const Kind kind : {Kind::kNone, Kind::kOneSlow, Kind::kRandomSlow, Kind::kPauses}) {
    EXPECT_EQ(*KindOfName(KindName(kind)), kind);
  }
  EXPECT_EQ(KindOfName("some").status().message(),
            "expected none, one_slow, random_slow or pauses, got \"some\"");
}

}  // namespace
}  // namespace capstan
