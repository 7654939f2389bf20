#include "deploy/cli/text/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace capstan {
namespace {

TEST(NumberTextTest, OrdinalsEndAsInEnglish) {
  EXPECT_EQ(OrdinalText(1), "1st");
  EXPECT_EQ(OrdinalText(2), "2nd");
  EXPECT_EQ(OrdinalText(23), "23rd");
  EXPECT_EQ(OrdinalText(4), "4th");
  EXPECT_EQ(OrdinalText(112), "112th");
}

TEST(NumberTextTest, CountsHaveACommaBeforeEachThreeDigits) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(RoundedCountText(1234567.8), "1,234,567");
  EXPECT_EQ(RoundedCountText(1e300), "?");
}

TEST(NumberTextTest, BytesTakeTheLargestUnit) {
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(1500), "1.5 kB");
  EXPECT_EQ(BytesText(12.3e6), "12.3 MB");
  EXPECT_EQ(BytesText(4e9), "4.0 GB");
}

TEST(NumberTextTest, TimesAreMinutesAndSecondsAndHoursWhenNeeded) {
  EXPECT_EQ(TimeText(5.9), "0:05");
  EXPECT_EQ(TimeText(754), "12:34");
  EXPECT_EQ(TimeText(3723), "1:02:03");
  EXPECT_EQ(TimeText(INFINITY), "?");
}

TEST(NumberTextTest, RatiosSayWhichIsSmaller) {
  EXPECT_EQ(RatioText(3.938), "3.9x smaller");
  EXPECT_EQ(RatioText(50), "50.0x smaller");
  EXPECT_EQ(RatioText(1.0), "no smaller");
  EXPECT_EQ(RatioText(0.9999), "no smaller");
  EXPECT_EQ(RatioText(0.5), "2.0x larger");
  EXPECT_EQ(RatioText(0), "?");
  EXPECT_EQ(RatioText(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(NumberTextTest, AStepHasNoTotalIfThatIsNotKnown) {
  EXPECT_EQ(StepText(120, 400), "step 120 of 400");
  EXPECT_EQ(StepText(120, 0), "step 120");
}

}  // namespace
}  // namespace capstan
