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
  EXPECT_EQ(LastLineOf("E20301121 02:13:34.123456  1234 main.cc:12] no data\n"
                       "I20301121 02:13:34.123456  1234 main.cc:15] closing\n"
                       "W1121 02:13:34.123456  1234 main.cc:15] slowly\n"),
            "no data");
}

TEST(LogTailTest, StackTraceIsSkipped) {
  EXPECT_EQ(LastLineOf("F1121 02:13:34.123456  1234 shard.cc:7] Check failed: x == y\n"
                       "*** Check failure stack trace: ***\n"
                       "    @     0x7f1c2d  google::LogMessage::Fail()\n"),
            "Check failed: x == y");
}

TEST(LogTailTest, LogWithoutAnErrorSaysSo) {
  EXPECT_EQ(LastLineOf("I20301121 02:13:34.123456  1234 main.cc:15] listening\n"),
            "no error in its log");
}

TEST(LogTailTest, OnlyTheEndOfALongLogIsRead) {
  EXPECT_EQ(LastLineOf(std::string(1 << 20, 'x') + "\nlast"), "last");
}

TEST(LogTailTest, EmptyOrMissingLogHasNoError) {
  EXPECT_EQ(LastLineOf(""), "no error in its log");
  EXPECT_EQ(LastErrorLine("/nonexistent/a.log"), "no error in its log");
}

}  // namespace
}  // namespace capstan
