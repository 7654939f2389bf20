#include "deploy/cli/report_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace capstan {
namespace {

using ::testing::HasSubstr;

class ReportCommandTest : public ::testing::Test {
 protected:
  ReportCommandTest()
      : folder_(::testing::TempDir() + "/" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/progress.jsonl")
        << "{\"seconds\": 1, \"workers\": [{\"worker\": 0, \"steps_done\": 5, \"loss\": 0.5}]}\n";
  }

  std::string Page(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const std::string folder_;
  std::ostringstream out_;
};

TEST_F(ReportCommandTest, ThePageIsInTheFolderOfTheRun) {
  const absl::Status status = ReportCommand(folder_, "", out_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out_.str(), folder_ + "/report.html: 6 charts; open it in a browser\n");
  EXPECT_THAT(Page(folder_ + "/report.html"), HasSubstr("\"id\":\"loss_over_time\""));
}

TEST_F(ReportCommandTest, ThePageIsWhereItIsWanted) {
  ASSERT_TRUE(ReportCommand(folder_, folder_ + "/other.html", out_).ok());
  EXPECT_THAT(Page(folder_ + "/other.html"), HasSubstr("<!DOCTYPE html>"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/report.html"));
}

TEST_F(ReportCommandTest, APageThatCannotBeWrittenIsNamed) {
  EXPECT_EQ(ReportCommand(folder_, "/nonexistent/page.html", out_).message(),
            "expected to write the page to /nonexistent/page.html, but cannot; choose another "
            "--output");
}

TEST_F(ReportCommandTest, ARunThatCannotBeReadIsTheError) {
  EXPECT_THAT(std::string(ReportCommand("/nonexistent", "", out_).message()),
              HasSubstr("there is no folder /nonexistent"));
}

}  // namespace
}  // namespace capstan
