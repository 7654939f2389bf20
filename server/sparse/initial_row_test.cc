#include "server/sparse/initial_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"

namespace capstan {
namespace {

std::vector<float> RowOf(uint64_t key, size_t dim = 16, uint64_t seed = 1,
                         TableId table = TableId(2)) {
  std::vector<float> values(dim, NAN);
  InitializeRow(seed, table, /*stddev=*/0.5, key, absl::MakeSpan(values));
  return values;
}

TEST(InitialRowTest, DependsOnSeedTableAndKey) {
  EXPECT_EQ(RowOf(7), RowOf(7));
  EXPECT_NE(RowOf(7), RowOf(8));
  EXPECT_NE(RowOf(7), RowOf(7 + (uint64_t{1} << 32)));
  EXPECT_NE(RowOf(7), RowOf(7, 16, /*seed=*/3));
  EXPECT_NE(RowOf(7), RowOf(7, 16, /*seed=*/1, TableId(3)));
}

TEST(InitialRowTest, AnElementDoesNotDependOnTheSizeOfTheRow) {
  const std::vector<float> whole = RowOf(7, /*dim=*/1024);
  for (const size_t dim : {1, 2, 3, 5, 16, 1023}) {
    EXPECT_EQ(RowOf(7, dim), std::vector<float>(whole.begin(), whole.begin() + dim)) << dim;
  }
  EXPECT_EQ(std::set<float>(whole.begin(), whole.end()).size(), 1024u);
}

TEST(InitialRowTest, ValuesAreNormalWithTheGivenDeviation) {
  double sum = 0, squares = 0, products = 0;
  for (uint64_t key = 0; key < 10'000; ++key) {
    const std::vector<float> row = RowOf(key);
    for (size_t i = 0; i < 16; ++i) {
      sum += row[i];
      squares += row[i] * row[i];
      products += row[i] * row[(i + 1) % 16];
    }
  }
  EXPECT_NEAR(sum / 160'000, 0.0, 0.005);
  EXPECT_NEAR(squares / 160'000, 0.25, 0.005);
  EXPECT_NEAR(products / 160'000, 0.0, 0.005);
}

TEST(InitialRowTest, NoDeviationMeansZeros) {
  std::vector<float> values(5, 1.0f);
  InitializeRow(/*seed=*/1, TableId(0), /*stddev=*/0, /*key=*/9, absl::MakeSpan(values));
  EXPECT_EQ(values, std::vector<float>(5, 0.0f));
}

}  // namespace
}  // namespace capstan
