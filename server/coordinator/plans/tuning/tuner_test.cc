#include "server/coordinator/plans/tuning/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace capstan {
namespace {

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;

using StepTime = std::function<double(const SchedulePoint&)>;

SearchSpace Space() {
  SearchSpace space;
  space.own = {256 * kKiB, 4 * kMiB};
  space.slice_bytes = 256 * kKiB;
  space.largest_tensor_bytes = 50 * kMiB;
  space.model_bytes = 70 * kMiB;
  return space;
}

// A step of 50 ms of computation and 70 MB over a link. It has the fixed cost of a transfer, the
// wait of the first layer, and a link that stands still while less than its delay's bytes are out.
StepTime Link(double bytes_per_second, double transfer_seconds, double delay_seconds) {
  return [=](const SchedulePoint& point) {
    const auto partition = static_cast<double>(point.partition_bytes);
    const auto out = static_cast<double>(std::max(point.credit_bytes, point.partition_bytes));
    const double bytes = 70.0 * kMiB;
    const double busy = std::min(1.0, out / (out + delay_seconds * bytes_per_second));
    return 0.05 + bytes / bytes_per_second / busy + bytes / partition * transfer_seconds +
           2 * (out + partition) / bytes_per_second;
  };
}

// Milliseconds of a step of VGG16, tensors a 32nd of their size, with 2 workers and 2 servers on
// links of 1 Gbit/s; measured. Row i, column j: a partition of 2^i and a credit of 2^j slices of
// 256 KiB.
constexpr int kRecorded[7][8] = {
    {205, 183, 176, 174, 195, 216, 217, 217},
    {0, 183, 172, 176, 191, 214, 216, 219},
    {0, 0, 201, 181, 182, 214, 215, 218},
    {0, 0, 0, 212, 178, 214, 215, 217},
    {0, 0, 0, 0, 196, 215, 217, 215},
    {0, 0, 0, 0, 0, 184, 218, 214},
    {0, 0, 0, 0, 0, 0, 216, 219},
};

StepTime Recorded() {
  return [](const SchedulePoint& point) {
    const auto octave = [](uint64_t bytes, int last) {
      return std::min(last, static_cast<int>(std::log2(static_cast<double>(bytes) / (256 * kKiB))));
    };
    return 0.001 * kRecorded[octave(point.partition_bytes, 6)][octave(point.credit_bytes, 7)];
  };
}

double BestOf(const SearchSpace& space, const StepTime& step_time) {
  double best = INFINITY;
  for (const SchedulePoint& point : Candidates(space)) best = std::min(best, step_time(point));
  return best;
}

// Tunes to the end; each measurement is off by a normal part of `noise`.
Tuner Tune(const SearchSpace& space, uint64_t seed, const StepTime& step_time, double noise) {
  Tuner tuner(space);
  Random random(seed, /*stream=*/9);
  int measurements = 0;
  while (!tuner.has_ended()) {
    tuner.Record(step_time(tuner.current()) * (1 + noise * random.Normal()));
    if (++measurements > Tuner::kMostMeasurements) break;
  }
  EXPECT_TRUE(tuner.has_ended()) << "after " << measurements << " measurements";
  return tuner;
}

SearchSpace SmallSpace() {
  SearchSpace space;
  space.own = {256 * kKiB, 4 * kMiB};
  space.slice_bytes = 256 * kKiB;
  space.largest_tensor_bytes = 900 * kKiB;
  space.model_bytes = 3 * kMiB;
  return space;
}

TEST(CandidatesTest, DoublesASliceUntilTensorAndModelFit) {
  const std::vector<SchedulePoint> expected = {
      {256 * kKiB, 4 * kMiB},  // the job's own
      {256 * kKiB, 256 * kKiB}, {256 * kKiB, 512 * kKiB}, {256 * kKiB, 1 * kMiB},
      {256 * kKiB, 2 * kMiB},   {512 * kKiB, 512 * kKiB}, {512 * kKiB, 1 * kMiB},
      {512 * kKiB, 2 * kMiB},   {512 * kKiB, 4 * kMiB},   {1 * kMiB, 1 * kMiB},
      {1 * kMiB, 2 * kMiB},     {1 * kMiB, 4 * kMiB}};
  EXPECT_EQ(Candidates(SmallSpace()), expected);
}

TEST(CandidatesTest, EndsAt64MiB) {
  SearchSpace space = SmallSpace();
  space.largest_tensor_bytes = space.model_bytes = 4096 * kMiB;
  for (const SchedulePoint& point : Candidates(space)) {
    EXPECT_LE(point.partition_bytes, 64 * kMiB);
    EXPECT_LE(point.credit_bytes, 64 * kMiB);
  }
  EXPECT_EQ(Candidates(space).size(), 45u) << "9 doublings, credits below the partition left out";
}

TEST(CandidatesTest, AModelOfOneSliceHasNoChoice) {
  SearchSpace space = SmallSpace();
  space.own.credit_bytes = space.slice_bytes;
  space.largest_tensor_bytes = space.model_bytes = 1;
  EXPECT_EQ(Candidates(space).size(), 1u);
}

TEST(TunerTest, EndsWithin5PercentOfTheBestPointOnSlowAndFastLinks) {
  for (const double gbit : {0.5, 1.0, 5.0, 25.0}) {
    for (const double delay : {0.0001, 0.005}) {
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        const StepTime step_time = Link(gbit * 1e9 / 8, /*transfer_seconds=*/5e-5, delay);
        const Tuner tuner = Tune(Space(), seed, step_time, /*noise=*/0.01);
        EXPECT_LE(step_time(tuner.current()), 1.05 * BestOf(Space(), step_time))
            << gbit << " Gbit/s, delay " << delay << ", seed " << seed << ": partition "
            << tuner.current().partition_bytes << ", credit " << tuner.current().credit_bytes;
      }
    }
  }
}

TEST(TunerTest, EndsNearTheBestPointOfARecordedGrid) {
  SearchSpace space = Space();
  space.largest_tensor_bytes = 12845056;
  space.model_bytes = 17294692;
  for (const uint64_t own : {256 * kKiB, 4 * kMiB, 64 * kMiB}) {
    space.own = {std::max(256 * kKiB, own / 16), own};
    int near = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      const Tuner tuner = Tune(space, seed, Recorded(), /*noise=*/0.03);
      near += Recorded()(tuner.current()) <= 1.05 * BestOf(space, Recorded());
    }
    EXPECT_GE(near, 90) << "of 100, from a credit of " << own;
  }
}

TEST(TunerTest, ABadStartIsLeft) {
  SearchSpace space = Space();
  space.own = {64 * kMiB, 64 * kMiB};
  const StepTime step_time = Link(1.25e8, 5e-5, 0.001);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Tuner tuner = Tune(space, seed, step_time, /*noise=*/0.02);
    EXPECT_LE(step_time(tuner.current()), 1.05 * BestOf(space, step_time)) << seed;
    EXPECT_NE(tuner.reason().find("faster than the job's own"), std::string::npos)
        << tuner.reason();
    EXPECT_LT(tuner.chosen_seconds(), tuner.own_seconds());
  }
}

TEST(TunerTest, WhereNothingMattersTheJobsOwnMostlyStays) {
  int kept = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Tuner tuner = Tune(
        Space(), seed, [](const SchedulePoint&) { return 0.2; }, 0.02);
    kept += tuner.current() == Space().own;
  }
  EXPECT_GE(kept, 65);
  const Tuner still = Tune(
      Space(), 1, [](const SchedulePoint&) { return 0.2; }, /*noise=*/0);
  EXPECT_EQ(still.current(), Space().own);
  EXPECT_EQ(still.reason(), "the job's own: no other is faster");
}

TEST(TunerTest, TheSameMeasurementsLeadTheSameWay) {
  const StepTime step_time = Link(1.25e8, 5e-5, 0.001);
  const Tuner first = Tune(Space(), /*seed=*/3, step_time, /*noise=*/0.01);
  const Tuner second = Tune(Space(), /*seed=*/3, step_time, /*noise=*/0.01);
  ASSERT_EQ(first.measurements().size(), second.measurements().size());
  for (size_t i = 0; i < first.measurements().size(); ++i) {
    EXPECT_EQ(first.measurements()[i].point, second.measurements()[i].point);
  }
  EXPECT_EQ(first.reason(), second.reason());
}

TEST(TunerTest, OneSlowMeasurementWhileTheJobWarmsUpDoesNotCount) {
  Tuner tuner(Space());
  tuner.Record(60);
  EXPECT_TRUE(tuner.measurements().empty());
  EXPECT_EQ(tuner.current(), Space().own) << "measured again";
}

TEST(TunerTest, APointIsExploredOnceAndTheBestAreComparedTwice) {
  const Tuner tuner = Tune(Space(), /*seed=*/1, Link(1.25e8, 5e-5, 0.001), /*noise=*/0);
  EXPECT_EQ(tuner.points_tried(), 11);
  EXPECT_EQ(tuner.measurements().size(), 17u);
}

TEST(TunerTest, ASmallSpaceIsExploredWhole) {
  SearchSpace space = Space();
  space.own = {256 * kKiB, 256 * kKiB};
  space.largest_tensor_bytes = 256 * kKiB;
  space.model_bytes = 512 * kKiB;
  const Tuner tuner = Tune(
      space, /*seed=*/1, [](const SchedulePoint& point) { return 1e4 / point.credit_bytes; }, 0);
  EXPECT_EQ(tuner.points_tried(), 2);
  EXPECT_EQ(tuner.current().credit_bytes, 512 * kKiB);
}

TEST(TunerTest, WithoutAChoiceItHasEndedAtOnce) {
  SearchSpace space = Space();
  space.own = {256 * kKiB, 256 * kKiB};
  space.largest_tensor_bytes = space.model_bytes = 1000;
  const Tuner tuner(space);
  EXPECT_TRUE(tuner.has_ended());
  EXPECT_EQ(tuner.current(), space.own);
  EXPECT_EQ(tuner.reason(), "there is no choice: the model is one slice");
}

}  // namespace
}  // namespace capstan
