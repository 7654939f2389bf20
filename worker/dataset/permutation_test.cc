#include "worker/dataset/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PermutationTest, EveryOrderIsAboutAsLikely) {
  constexpr int kDraws = 24000;
  Random random(/*seed=*/1);
  std::map<std::vector<uint32_t>, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[RandomPermutation(/*count=*/4, random)];
  EXPECT_EQ(counts.size(), 24);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, kDraws / 24, 150);  // 5 sigma
}

TEST(PermutationTest, FewerThanTwoHaveOneOrder) {
  Random random(/*seed=*/1);
  EXPECT_THAT(RandomPermutation(/*count=*/0, random), IsEmpty());
  EXPECT_THAT(RandomPermutation(/*count=*/1, random), ElementsAre(0));
}

}  // namespace
}  // namespace capstan
