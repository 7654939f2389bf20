#include "common/base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Known answers of the authors' distribution (Random123, kat_vectors).
TEST(PhiloxTest, MatchesThePublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, SameSeedAndStreamGiveTheSameNumbers) {
  Random a(/*seed=*/5, /*stream=*/2), b(/*seed=*/5, /*stream=*/2), other(/*seed=*/5, /*stream=*/3);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint32_t word = a();
    EXPECT_EQ(word, b());
    differs |= word != other();
  }
  EXPECT_TRUE(differs);
}

TEST(RandomTest, MomentsOfNormalAndUniformAreRight) {
  Random random(/*seed=*/1);
  const int count = 200'000;
  double sum = 0, squares = 0, uniform_sum = 0;
  for (int i = 0; i < count; ++i) {
    const double x = random.Normal();
    sum += x;
    squares += x * x;
    uniform_sum += random.UniformFloat();
  }
  EXPECT_NEAR(sum / count, 0.0, 0.01);
  EXPECT_NEAR(squares / count, 1.0, 0.02);
  EXPECT_NEAR(uniform_sum / count, 0.5, 0.005);
}

TEST(RandomTest, UniformIntCoversItsRangeEvenly) {
  Random random(/*seed=*/9);
  std::vector<int> histogram(7);
  for (int i = 0; i < 70'000; ++i) ++histogram.at(random.UniformInt(7));
  for (const int bucket : histogram) EXPECT_NEAR(bucket, 10'000, 500);
}

TEST(RandomTest, BernoulliKeepsToItsProbability) {
  Random random(/*seed=*/3);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) hits += random.Bernoulli(0.05);
  EXPECT_NEAR(hits, 5'000, 300);
}

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
