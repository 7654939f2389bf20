#include "worker/dataset/sparse/zipf_ranks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace capstan {
namespace {

constexpr double kExponents[] = {0, 0.5, 1 - 1e-9, 1, 1.1, 2};

TEST(ZipfRanksTest, ProbabilitiesAddUpToOneAndFall) {
  for (const double exponent : kExponents) {
    const ZipfRanks ranks(/*count=*/1000, exponent);
    double sum = 0;
    for (uint64_t rank = 0; rank < 1000; ++rank) {
      sum += ranks.Probability(rank);
      if (rank == 0 || exponent == 0) continue;
      EXPECT_LT(ranks.Probability(rank), ranks.Probability(rank - 1)) << exponent;
    }
    EXPECT_NEAR(sum, 1, 1e-9) << exponent;
  }
}

TEST(ZipfRanksTest, ProbabilitiesFollowZipfsLaw) {
  for (const double exponent : kExponents) {
    const ZipfRanks ranks(/*count=*/1000, exponent);
    EXPECT_NEAR(ranks.Probability(100) / ranks.Probability(500), std::pow(101.5 / 501.5, -exponent),
                1e-3 * std::pow(5, exponent))
        << exponent;
  }
}

// Of evenly spread numbers, each rank gets its part.
TEST(ZipfRanksTest, DrawsHaveTheirProbabilities) {
  constexpr int kDraws = 1000000;
  for (const double exponent : kExponents) {
    const ZipfRanks ranks(/*count=*/50, exponent);
    std::vector<int> drawn(50);
    for (int i = 0; i < kDraws; ++i) ++drawn[ranks.Rank((i + 0.5) / kDraws)];
    for (uint64_t rank = 0; rank < 50; ++rank) {
      EXPECT_NEAR(drawn[rank], kDraws * ranks.Probability(rank), 2) << exponent << " " << rank;
    }
  }
}

TEST(ZipfRanksTest, EndsOfTheRangeAreRanks) {
  for (const double exponent : kExponents) {
    for (const uint64_t count : {uint64_t{1}, uint64_t{3}, uint64_t{1} << 32}) {
      const ZipfRanks ranks(count, exponent);
      EXPECT_EQ(ranks.Rank(0), 0u);
      EXPECT_LT(ranks.Rank(1 - 0x1p-53), count);
    }
  }
}

TEST(ZipfRanksTest, FrequentRanksAreThoseAtOrAboveTheLimit) {
  const ZipfRanks ranks(/*count=*/1000, /*exponent=*/1.1);
  EXPECT_EQ(ranks.CountFrequent(0), 1000u);
  EXPECT_EQ(ranks.CountFrequent(1), 0u);
  const uint64_t frequent = ranks.CountFrequent(0.001);
  EXPECT_GE(ranks.Probability(frequent - 1), 0.001);
  EXPECT_LT(ranks.Probability(frequent), 0.001);
}

}  // namespace
}  // namespace capstan
