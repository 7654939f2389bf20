#include "tests/benchmark/straggler/straggler_run.h"

#include <gtest/gtest.h>

#include "common/base/real_clock.h"

namespace capstan {
namespace {

using Points = std::vector<std::pair<double, double>>;

StragglerRunOptions Small(const std::string& mode) {
  StragglerRunOptions options;
  options.consistency = *ModeOfName(mode);
  options.pattern.compute = absl::Milliseconds(10);
  options.num_workers = 2;
  options.steps = 20;
  return options;
}

StragglerRunResult Train(const StragglerRunOptions& options) {
  RealClock clock;
  const absl::StatusOr<StragglerRunResult> result = RunStragglers(options, clock);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : StragglerRunResult();
}

TEST(StragglerRunTest, UnderBspTheFastWorkerIdlesWhileTheSlowOneComputes) {
  StragglerRunOptions options = Small("bsp");
  options.pattern.kind = StragglerPattern::Kind::kOneSlow;
  const StragglerRunResult result = Train(options);
  // One worker of two waits half of its time.
  EXPECT_GT(result.idle_share, 0.15);
  EXPECT_LT(result.idle_share, 0.5);
  EXPECT_EQ(result.max_staleness, 0);
  EXPECT_GE(result.seconds, 20 * 0.020);
  EXPECT_LE(result.steps_per_second, 40 / 0.400);
  EXPECT_EQ(result.loss_over_time.size(), 1)
      << "there are fewer steps than a loss is averaged over";
}

TEST(StragglerRunTest, TheModelLearnsInEveryMode) {
  for (const std::string mode : {"bsp", "ssp2", "async"}) {
    SCOPED_TRACE(mode);
    StragglerRunOptions options = Small(mode);
    options.pattern.compute = absl::ZeroDuration();
    // Small steps: who is how stale, and the last few batches, change little.
    options.learning_rate = 0.1;
    options.steps = 200;
    const StragglerRunResult trained = Train(options);
    options.learning_rate = 1e-30;  // changes no parameter
    const StragglerRunResult untrained = Train(options);
    EXPECT_GT(trained.accuracy, untrained.accuracy + 0.5);
    EXPECT_LT(trained.loss_over_time.back().second, untrained.loss_over_time.back().second / 2);
  }
}

TEST(StragglerRunTest, UnderAsyncNobodyIdlesAndStalenessGrows) {
  StragglerRunOptions options = Small("async");
  options.pattern.kind = StragglerPattern::Kind::kOneSlow;
  const StragglerRunResult result = Train(options);
  EXPECT_LT(result.idle_share, 0.1);
  EXPECT_GE(result.max_staleness, 5);
  EXPECT_GT(result.mean_staleness, 1);
}

TEST(StragglerRunTest, TargetIsReachedWhereTheLossIs) {
  StragglerRunOptions options = Small("ssp2");
  options.steps = 30;
  options.target_loss = 100;
  const StragglerRunResult result = Train(options);
  ASSERT_TRUE(result.seconds_to_target.has_value());
  EXPECT_EQ(*result.seconds_to_target, result.loss_over_time.front().first);
  EXPECT_EQ(*result.steps_to_target, 25) << "the first loss is that of 25 batches a worker";
  options.target_loss = 0;
  EXPECT_FALSE(Train(options).seconds_to_target.has_value());
}

TEST(StragglerRunTest, ASharedStepMovesAsFarInEachMode) {
  StragglerRunOptions options = Small("bsp");
  options.learning_rate = 0.5;
  EXPECT_EQ(JobOf(options).optimizer().learning_rate(), 0.5);
  options.consistency = *ModeOfName("ssp4");
  EXPECT_EQ(JobOf(options).optimizer().learning_rate(), 0.5);
  EXPECT_EQ(JobOf(options).consistency().update_scale(), v1::ConsistencySpec::MEAN);
}

TEST(LossOverTimeTest, AveragesTheLatestBatchesOfAllWorkers) {
  const absl::Time start = absl::UnixEpoch();
  const auto at = [start](int seconds) { return start + absl::Seconds(seconds); };
  EXPECT_EQ(LossOverTime({{{at(1), 6}, {at(4), 2}}, {{at(2), 4}, {at(3), 1}}}, start, /*window=*/2),
            (Points{{2, 5}, {3, 2.5}, {4, 1.5}}));
  EXPECT_EQ(LossOverTime({{{at(1), 6}}}, start, /*window=*/2), Points());
}

TEST(MedianOfTest, TakesEachFigureByItself) {
  std::vector<StragglerRunResult> runs(3);
  runs[0].steps_per_second = 3, runs[1].steps_per_second = 1, runs[2].steps_per_second = 2;
  runs[0].max_staleness = 4, runs[1].max_staleness = 9, runs[2].max_staleness = 5;
  runs[1].seconds_to_target = 7, runs[2].seconds_to_target = 6;
  runs[1].steps_to_target = 70;
  runs[0].loss_over_time = {{1, 2}};
  const StragglerRunResult median = MedianOf(runs);
  EXPECT_EQ(median.steps_per_second, 2);
  EXPECT_EQ(median.max_staleness, 5);
  EXPECT_EQ(median.seconds_to_target, 7) << "one of three never reached it";
  EXPECT_EQ(median.steps_to_target, std::nullopt) << "two of three never reached it";
  EXPECT_EQ(median.loss_over_time, (Points{{1, 2}}));
}

TEST(ModeNameTest, IsReadBack) {
  for (const std::string name : {"bsp", "ssp 16", "async"}) {
    EXPECT_EQ(ModeName(*ModeOfName(name)), name);
  }
}

TEST(ModeNameTest, OthersAreRefused) {
  for (const std::string name : {"", "ssp", "ssp-1", "bsp1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ModeOfName(name).status())) << name;
  }
}

}  // namespace
}  // namespace capstan
