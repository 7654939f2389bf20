#include "server/coordinator/tuning/search_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace capstan {
namespace {

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;

SearchSpace Space() {
  SearchSpace space;
  space.own = {256 * kKiB, 4 * kMiB};
  space.slice_bytes = 256 * kKiB;
  space.largest_tensor_bytes = 900 * kKiB;
  space.model_bytes = 3 * kMiB;
  return space;
}

TEST(SearchSpaceTest, DoublesASliceUntilTensorAndModelFit) {
  const std::vector<SchedulePoint> expected = {
      {256 * kKiB, 4 * kMiB},  // the job's own
      {256 * kKiB, 256 * kKiB}, {256 * kKiB, 512 * kKiB}, {256 * kKiB, 1 * kMiB},
      {256 * kKiB, 2 * kMiB},   {512 * kKiB, 512 * kKiB}, {512 * kKiB, 1 * kMiB},
      {512 * kKiB, 2 * kMiB},   {512 * kKiB, 4 * kMiB},   {1 * kMiB, 1 * kMiB},
      {1 * kMiB, 2 * kMiB},     {1 * kMiB, 4 * kMiB}};
  EXPECT_EQ(Candidates(Space()), expected);
}

TEST(SearchSpaceTest, EndsAt64MiB) {
  SearchSpace space = Space();
  space.largest_tensor_bytes = space.model_bytes = 4096 * kMiB;
  for (const SchedulePoint& point : Candidates(space)) {
    EXPECT_LE(point.partition_bytes, 64 * kMiB);
    EXPECT_LE(point.credit_bytes, 64 * kMiB);
  }
  EXPECT_EQ(Candidates(space).size(), 45u) << "9 doublings, credits below the partition left out";
}

TEST(SearchSpaceTest, AModelOfOneSliceHasNoChoice) {
  SearchSpace space = Space();
  space.own.credit_bytes = space.slice_bytes;
  space.largest_tensor_bytes = space.model_bytes = 1;
  EXPECT_EQ(Candidates(space).size(), 1u);
}

TEST(SearchSpaceTest, OctavesCountFromASlice) {
  const TuningPoint at = Octaves(Space(), {512 * kKiB, 4 * kMiB});
  EXPECT_EQ(at[0], 1);
  EXPECT_EQ(at[1], 4);
}

TEST(SearchSpaceTest, SpreadsOutOverBothDirectionsAndBySeed) {
  SearchSpace space = Space();
  space.largest_tensor_bytes = space.model_bytes = 64 * kMiB;
  const std::vector<SchedulePoint> candidates = Candidates(space);
  std::set<std::vector<size_t>> designs;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<size_t> chosen = SpreadOut(space, candidates, 4, seed);
    EXPECT_EQ(chosen, SpreadOut(space, candidates, 4, seed)) << seed;
    EXPECT_GE(chosen.size(), 3u) << seed;
    EXPECT_EQ(std::set<size_t>(chosen.begin(), chosen.end()).size(), chosen.size()) << seed;
    double least = 8, most = 0;
    for (const size_t index : chosen) {
      least = std::min(least, Octaves(space, candidates[index])[1]);
      most = std::max(most, Octaves(space, candidates[index])[1]);
    }
    EXPECT_GE(most - least, 3) << seed;
    designs.insert(chosen);
  }
  EXPECT_GT(designs.size(), 10u);
}

}  // namespace
}  // namespace capstan
