#include "common/history/check/slice_contents.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/history/history.h"

namespace capstan {
namespace {

TEST(SliceContentsTest, ReadsHowOftenEachUpdateIsInAndOfWhatMean) {
  std::vector<float> values(3 * 2, 0.0f);
  values[TestElement(WorkerId(0), Step(1), 2)] = kTestUpdate;
  values[TestElement(WorkerId(1), Step(1), 2)] = 3 * kTestUpdate;
  values[TestElement(WorkerId(2), Step(0), 2)] = kTestUpdate / 7;
  const auto contents = SliceContents::Decode(values, /*num_workers=*/3, /*steps=*/2);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->Count(WorkerId(0), Step(0)), 0);
  EXPECT_EQ(contents->Count(WorkerId(0), Step(1)), 1);
  EXPECT_EQ(contents->Count(WorkerId(1), Step(1)), 3);
  EXPECT_EQ(contents->Count(WorkerId(2), Step(0)), 1);
  EXPECT_EQ(contents->DivisorOf(WorkerId(2), Step(0)), 7);
  EXPECT_EQ(contents->Workers(Step(1)), 2);
  EXPECT_EQ(contents->Updates(Step(1)), 4);
}

TEST(SliceContentsTest, ElementsChangeOneByOne) {
  SliceContents contents = SliceContents::Empty(/*num_workers=*/2, /*steps=*/3);
  EXPECT_EQ(contents.Updates(Step(1)), 0);
  const size_t element = TestElement(WorkerId(1), Step(1), 3);
  ASSERT_TRUE(contents.Set(element, 2 * kTestUpdate).ok());
  EXPECT_EQ(contents.Count(WorkerId(1), Step(1)), 2);
  EXPECT_EQ(contents.Workers(Step(1)), 1);
  EXPECT_EQ(contents.Updates(Step(1)), 2);
  const SliceContents before = contents;
  ASSERT_TRUE(contents.Set(element, kTestUpdate / 3).ok());
  EXPECT_EQ(contents.DivisorOf(WorkerId(1), Step(1)), 3);
  EXPECT_EQ(contents.Updates(Step(1)), 1);
  EXPECT_FALSE(contents.IsSame(before, WorkerId(1), Step(1)));
  EXPECT_TRUE(contents.IsSame(before, WorkerId(0), Step(1)));
  EXPECT_FALSE(contents.Set(element, kTestUpdate / 3 + kTestUpdate / 4).ok());
  EXPECT_EQ(contents.Count(WorkerId(1), Step(1)), 2) << "two parts, of two sizes";
  EXPECT_FALSE(contents.Set(element, -kTestUpdate).ok());
  EXPECT_FALSE(contents.Has(WorkerId(1), Step(1)));
  EXPECT_EQ(contents.Workers(Step(1)), 0);
}

TEST(SliceContentsTest, EveryMeanOfUpToSixteenIsExact) {
  for (int n = 1; n <= static_cast<int>(kMaxTestWorkers); ++n) {
    const std::vector<float> values = {kTestUpdate / static_cast<float>(n)};
    const auto contents = SliceContents::Decode(values, /*num_workers=*/1, /*steps=*/1);
    ASSERT_TRUE(contents.ok()) << n;
    EXPECT_EQ(contents->Count(WorkerId(0), Step(0)), 1);
    EXPECT_EQ(contents->DivisorOf(WorkerId(0), Step(0)), n);
  }
}

TEST(SliceContentsTest, OtherValuesAreRefused) {
  EXPECT_FALSE(SliceContents::Decode(std::vector<float>{1.5f * kTestUpdate}, 1, 1).ok());
  EXPECT_FALSE(SliceContents::Decode(std::vector<float>{-kTestUpdate}, 1, 1).ok());
  EXPECT_FALSE(SliceContents::Decode(std::vector<float>{0, 0}, 1, 1).ok());
}

TEST(SliceContentsTest, NumbersOfWorkersAndStepsThatNoValuesAreOfTakeNoMemory) {
  const std::vector<float> values = {0};
  for (const uint32_t num_workers : {0u, 1u, 0xffffffffu}) {
    for (const int64_t steps : {int64_t{-1}, int64_t{0}, int64_t{1} << 62}) {
      EXPECT_FALSE(SliceContents::Decode(values, num_workers, steps).ok());
      EXPECT_FALSE(SliceContents::Decode({}, num_workers, steps).ok());
    }
  }
}

}  // namespace
}  // namespace capstan
