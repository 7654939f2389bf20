#include "server/page/log_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

TEST(LogRingTest, KeepsTheLastLinesOfTheLog) {
  LogRing ring;
  for (size_t i = 0; i < LogRing::kMaxLines + 3; ++i) LOG(WARNING) << "line " << i;
  const std::vector<std::string> lines = ring.Lines();
  ASSERT_EQ(lines.size(), LogRing::kMaxLines);
  EXPECT_THAT(lines.front(), testing::MatchesRegex("W ..:..:.. line 3"));
  EXPECT_THAT(lines.back(), testing::EndsWith(absl::StrCat("line ", LogRing::kMaxLines + 2)));
}

TEST(LogRingTest, LinesAreShortAndPrintable) {
  LogRing ring;
  LOG(INFO) << "a\x1b[2J" << std::string(2 * LogRing::kMaxLineBytes, 'x');
  ASSERT_EQ(ring.Lines().size(), 1);
  const std::string line = ring.Lines()[0];
  EXPECT_THAT(line, testing::HasSubstr("a\\x1b[2Jxx"));
  EXPECT_THAT(line, testing::EndsWith("xx..."));
  EXPECT_LT(line.size(), LogRing::kMaxLineBytes + 40);
}

}  // namespace
}  // namespace capstan
