#include "worker/dataset/digits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;

TEST(DigitsTest, HasAllImages) {
  const Dataset digits = MakeDigits();
  EXPECT_EQ(digits.size(), 1797);
  EXPECT_EQ(digits.feature_count, 64);
  EXPECT_EQ(digits.class_count, 10);
  EXPECT_EQ(digits.features.size(), 1797 * 64);
  EXPECT_EQ(*std::min_element(digits.features.begin(), digits.features.end()), 0.0f);
  EXPECT_EQ(*std::max_element(digits.features.begin(), digits.features.end()), 16.0f);
}

TEST(DigitsTest, FirstImageIsAZero) {
  const Dataset digits = MakeDigits();
  EXPECT_EQ(digits.labels[0], 0);
  EXPECT_THAT(digits.Row(0).subspan(0, 8), ElementsAre(0, 0, 5, 13, 9, 1, 0, 0));
}

// As the data set's own description says: from 174 to 183 of each.
TEST(DigitsTest, EveryDigitIsThereAboutAsOften) {
  std::vector<int> counts(10);
  for (const int32_t label : MakeDigits().labels) ++counts[static_cast<size_t>(label)];
  EXPECT_THAT(counts, ElementsAre(178, 182, 177, 183, 181, 182, 181, 179, 174, 180));
}

}  // namespace
}  // namespace capstan
