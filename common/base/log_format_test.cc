#include "common/base/log_format.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/json_fields.h"
#include "common/base/program.h"

namespace capstan {
namespace {

using ::nlohmann::json;
using ::testing::HasSubstr;

LogLine SomeLine() {
  LogLine line;
  line.time = absl::FromUnixMicros(1767225600000001);
  line.level = "info";
  line.role = "worker";
  line.message = "trains";
  line.source = "worker.cc:7";
  return line;
}

// The JSON lines that `log` writes.
std::vector<json> Logged(const std::function<void()>& log) {
  testing::internal::CaptureStderr();
  log();
  std::vector<json> lines;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(testing::internal::GetCapturedStderr(), '\n'))) {
    if (line.empty()) continue;
    lines.push_back(ParseJson(line));
    EXPECT_TRUE(lines.back().is_object()) << line;
  }
  return lines;
}

// From now on, for the rest of this process.
void LogJsonAs(const std::string& role) {
  static const bool has_begun = (InitProgram("log_format_test", ""), true);
  (void)has_begun;
  BeginLogs(role, {"program", "--log_format=json"});
}

TEST(LogFormatTest, ALineHasWhatIsKnown) {
  LogLine line = SomeLine();
  EXPECT_EQ(JsonLogLine(line),
            R"({"time":"2026-01-01T00:00:00.000001Z","level":"info","role":"worker",)"
            R"("message":"trains","source":"worker.cc:7"})"
            "\n");
  line.id = 3;
  line.step = 12;
  line.reason = "a \"reason\"";
  EXPECT_EQ(JsonLogLine(line),
            R"({"time":"2026-01-01T00:00:00.000001Z","level":"info","role":"worker",)"
            R"("id":3,"step":12,"reason":"a \"reason\"","message":"trains",)"
            R"("source":"worker.cc:7"})"
            "\n");
}

TEST(LogFormatTest, EveryByteIsEscapedIntoOneLineOfPrintableText) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string message = std::string("a") + static_cast<char>(byte) + "\\z\xff";
    LogLine line = SomeLine();
    line.message = message;
    line.reason = message;
    const std::string text = JsonLogLine(line);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << byte;
    for (const unsigned char c : text.substr(0, text.size() - 1)) {
      EXPECT_TRUE(c >= 0x20 && c < 0x7f) << byte;
    }
    const json parsed = ParseJson(text);
    ASSERT_TRUE(parsed.is_object()) << byte << ": " << text;
    EXPECT_EQ(parsed["reason"], parsed["message"]);
    if (byte == '\n' || (byte >= 0x20 && byte < 0x7f)) {
      EXPECT_EQ(parsed["message"], std::string("a") + static_cast<char>(byte) + "\\z\\xff");
    }
  }
}

TEST(LogFormatTest, CharactersBeyondAsciiStay) {
  LogLine line = SomeLine();
  line.message = "Zürich 日本 \xc2\x9b";
  EXPECT_EQ(ParseJson(JsonLogLine(line))["message"], "Zürich 日本 \\xc2\\x9b");
}

TEST(LogFormatTest, OnlyTextAndJsonAreFormats) {
  EXPECT_TRUE(SetLogFormat("text").ok());
  EXPECT_EQ(SetLogFormat("xml"),
            absl::InvalidArgumentError("--log_format: expected text or json, got \"xml\""));
}

TEST(LogFormatDeathTest, LogsAreTextUnlessTheCommandLineAsksForJson) {
  const std::vector<std::vector<std::string>> text = {
      {"p"}, {"p", "--log_format=text"}, {"p", "--log_format=json", "--log_format", "text"}};
  for (const std::vector<std::string>& args : text) {
    EXPECT_EXIT(
        {
          BeginLogs("worker", args);
          std::exit(LogsAreJson() ? 1 : 0);
        },
        testing::ExitedWithCode(0), "");
  }
  const std::vector<std::vector<std::string>> json = {
      {"p", "--log_format=json"}, {"p", "--log_format", "json"}, {"p", "-log_format=json", "-x"}};
  for (const std::vector<std::string>& args : json) {
    EXPECT_EXIT(
        {
          BeginLogs("worker", args);
          std::exit(LogsAreJson() ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
  }
}

TEST(LogFormatTest, MessagesHaveTheIdOnceItIsKnownAndTheDetailsOfTheirThread) {
  LogJsonAs("server");
  const std::vector<json> lines = Logged([] {
    LOG(INFO) << "before";
    SetLogId(4);
    const LogDetails outer(/*step=*/7);
    {
      const LogDetails inner("a full disk");
      LOG(WARNING) << "the checkpoint has failed: a full disk";
    }
    LOG(INFO) << "after";
  });
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_FALSE(lines[0].contains("id"));
  EXPECT_FALSE(lines[0].contains("step"));
  EXPECT_EQ(lines[0]["role"], "server");
  EXPECT_EQ(lines[0]["level"], "info");
  EXPECT_EQ(lines[1]["level"], "warning");
  EXPECT_EQ(lines[1]["id"], 4);
  EXPECT_EQ(lines[1]["reason"], "a full disk");
  EXPECT_FALSE(lines[1].contains("step"));
  EXPECT_EQ(lines[2]["step"], 7);
  EXPECT_FALSE(lines[2].contains("reason"));
  EXPECT_THAT(lines[2]["source"].get<std::string>(), HasSubstr("log_format_test.cc:"));
}

TEST(LogFormatTest, WhatOthersPrintToStandardErrorIsALineOfErrorEach) {
  LogJsonAs("worker");
  const std::vector<json> lines = Logged([] {
    std::cerr << "ERROR: Unknown flag " << 7 << '\n';
    std::cerr << std::endl;
    std::cerr << "two\nlines" << std::endl;
  });
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["message"], "ERROR: Unknown flag 7");
  EXPECT_EQ(lines[1]["message"], "two");
  EXPECT_EQ(lines[2]["message"], "lines");
  for (const json& line : lines) EXPECT_EQ(line["level"], "error");
}

TEST(LogFormatDeathTest, AFatalMessageIsOneLineAndEndsTheProcess) {
  EXPECT_EXIT(
      {
        LogJsonAs("worker");
        LOG(FATAL) << "our bug";
      },
      testing::KilledBySignal(SIGABRT),
      "^\\{\"time\":\"[^\n]*\"level\":\"fatal\"[^\n]*\"message\":\"our bug\"[^\n]*\\}\n$");
}

}  // namespace
}  // namespace capstan
