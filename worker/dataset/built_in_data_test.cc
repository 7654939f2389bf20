#include "worker/dataset/built_in_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

v1::SyntheticSpec SmallSpec() {
  v1::SyntheticSpec spec;
  spec.set_samples(4000);
  spec.set_features(16);
  spec.set_classes(5);
  return spec;
}

std::string Error(const v1::SyntheticSpec& spec) {
  return std::string(MakeSynthetic(spec, /*seed=*/1).status().message());
}

TEST(SyntheticTest, FeaturesAreStandardNormal) {
  const Dataset data = *MakeSynthetic(SmallSpec(), /*seed=*/1);
  ASSERT_EQ(data.features.size(), 4000 * 16);
  const double count = static_cast<double>(data.features.size());
  const double sum = std::accumulate(data.features.begin(), data.features.end(), 0.0);
  const double squares =
      std::inner_product(data.features.begin(), data.features.end(), data.features.begin(), 0.0);
  EXPECT_NEAR(sum / count, 0.0, 0.02);
  EXPECT_NEAR(squares / count, 1.0, 0.03);
}

TEST(SyntheticTest, NoClassIsRare) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const Dataset data = *MakeSynthetic(SmallSpec(), seed);
    EXPECT_EQ(data.class_count, 5);
    for (int label = 0; label < 5; ++label) {
      const auto count = std::count(data.labels.begin(), data.labels.end(), label);
      EXPECT_GT(count, 4000 / 5 / 4) << "label " << label << ", seed " << seed;
    }
  }
}

TEST(SyntheticTest, SameSeedGivesTheSameData) {
  const Dataset data = *MakeSynthetic(SmallSpec(), /*seed=*/7);
  const Dataset again = *MakeSynthetic(SmallSpec(), /*seed=*/7);
  const Dataset other = *MakeSynthetic(SmallSpec(), /*seed=*/8);
  EXPECT_EQ(data.features, again.features);
  EXPECT_EQ(data.labels, again.labels);
  EXPECT_NE(data.features, other.features);
}

TEST(SyntheticTest, LabelsDependOnTheFeaturesOnly) {
  v1::SyntheticSpec spec = SmallSpec();
  const Dataset data = *MakeSynthetic(spec, /*seed=*/1);
  spec.set_samples(100);
  const Dataset prefix = *MakeSynthetic(spec, /*seed=*/1);
  for (size_t i = 0; i < prefix.size(); ++i) EXPECT_EQ(prefix.labels[i], data.labels[i]);
}

TEST(SyntheticTest, SizesOutOfRangeAreRefused) {
  v1::SyntheticSpec spec = SmallSpec();
  spec.set_samples(0);
  EXPECT_EQ(Error(spec),
            "data.synthetic: expected samples, features and teacher_hidden of at least 1, got 0, "
            "16 and 32");
  spec = SmallSpec();
  spec.set_classes(1);
  EXPECT_EQ(Error(spec), "data.synthetic: expected classes from 2 to 1048576, got 1");
  spec = SmallSpec();
  spec.set_samples(UINT32_MAX);
  EXPECT_THAT(Error(spec), HasSubstr("4294967295 rows of 16 values take 256.0 GiB"));
  spec = SmallSpec();
  spec.set_teacher_hidden(UINT32_MAX);
  EXPECT_THAT(Error(spec), HasSubstr("weights of the teacher's hidden layer: "));
}

}  // namespace
}  // namespace capstan
