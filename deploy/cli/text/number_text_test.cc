#include "deploy/cli/text/number_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace capstan {
namespace {

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

}  // namespace
}  // namespace capstan
