#include "deploy/cli/log_tail.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace capstan {
namespace {

std::string LastLineOf(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/tail.log";
  std::ofstream(path, std::ios::trunc) << text;
  return LastErrorLine(path);
}

TEST(LogTailTest, LastLineIsTakenWhenItIsPlain) {
  EXPECT_EQ(LastLineOf("one\ncapstan_worker: no data\n\n"), "capstan_worker: no data");
}

TEST(LogTailTest, InfoAndWarningsAfterTheErrorAreSkipped) {
  EXPECT_EQ(LastLineOf("E1121 02:13:34.123456  1234 main.cc:12] no data\n"
                       "I1121 02:13:34.123456  1234 main.cc:15] closing\n"
                       "W1121 02:13:34.123456  1234 main.cc:15] slowly\n"),
            "no data");
}

TEST(LogTailTest, StackTraceIsSkipped) {
  EXPECT_EQ(LastLineOf("F1121 02:13:34.123456  1234 shard.cc:7] Check failed: x == y\n"
                       "*** Check failure stack trace: ***\n"
                       "    @     0x7f1c2d  google::LogMessage::Fail()\n"),
            "Check failed: x == y");
}

TEST(LogTailTest, InfoIsBetterThanNothing) {
  EXPECT_EQ(LastLineOf("I1121 02:13:34.123456  1234 main.cc:15] listening\n"), "listening");
}

TEST(LogTailTest, OnlyTheEndOfALongLogIsRead) {
  EXPECT_EQ(LastLineOf(std::string(1 << 20, 'x') + "\nlast"), "last");
}

TEST(LogTailTest, EmptyOrMissingLogSaysSo) {
  EXPECT_EQ(LastLineOf(""), "(empty log)");
  EXPECT_EQ(LastErrorLine("/nonexistent/a.log"), "(empty log)");
}

}  // namespace
}  // namespace capstan
