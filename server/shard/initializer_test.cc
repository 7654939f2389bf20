#include "server/shard/initializer.h"

#include <gtest/gtest.h>

#include <vector>

namespace capstan {
namespace {

TEST(InitializerTest, ValuesDoNotDependOnTheSlicing) {
  std::vector<float> whole(1000), pieces(1000);
  InitializeValues(/*seed=*/7, TableId(3), /*stddev=*/0.5, /*offset=*/0, absl::MakeSpan(whole));
  for (size_t offset = 0; offset < 1000; offset += 30) {
    InitializeValues(/*seed=*/7, TableId(3), /*stddev=*/0.5, offset,
                     absl::MakeSpan(pieces).subspan(offset, 30));
  }
  EXPECT_EQ(whole, pieces);
}

TEST(InitializerTest, ValuesAreNormalWithTheGivenDeviation) {
  std::vector<float> values(200'000);
  InitializeValues(/*seed=*/7, TableId(0), /*stddev=*/0.5, /*offset=*/0, absl::MakeSpan(values));
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / values.size(), 0.0, 0.005);
  EXPECT_NEAR(squares / values.size(), 0.25, 0.005);
}

TEST(InitializerTest, TablesAndSeedsDiffer) {
  std::vector<float> a(4), b(4), c(4);
  InitializeValues(/*seed=*/1, TableId(0), /*stddev=*/1, /*offset=*/0, absl::MakeSpan(a));
  InitializeValues(/*seed=*/1, TableId(1), /*stddev=*/1, /*offset=*/0, absl::MakeSpan(b));
  InitializeValues(/*seed=*/2, TableId(0), /*stddev=*/1, /*offset=*/0, absl::MakeSpan(c));
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
}

TEST(InitializerTest, NoDeviationMeansZeros) {
  std::vector<float> values(5, 1.0f);
  InitializeValues(/*seed=*/1, TableId(0), /*stddev=*/0, /*offset=*/0, absl::MakeSpan(values));
  EXPECT_EQ(values, std::vector<float>(5, 0.0f));
}

}  // namespace
}  // namespace capstan
