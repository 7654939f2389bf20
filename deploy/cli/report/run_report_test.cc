#include "deploy/cli/report/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class RunReportTest : public ::testing::Test {
 protected:
  RunReportTest()
      : folder_(::testing::TempDir() + "/" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }

  std::string Error() { return std::string(RunReport(folder_).status().message()); }

  const std::string folder_;
};

constexpr char kProgress[] =
    "{\"seconds\": 1, \"workers\": [{\"worker\": 0, \"steps_done\": 5, \"loss\": 0.5}]}\n";

TEST_F(RunReportTest, HasTheFiguresOfTheSummary) {
  Write("progress.jsonl", kProgress);
  Write("summary.json", R"({"job": "night", "consistency": "ssp", "workers": 2, "seconds": 1.5,
                            "test_accuracy": 0.975, "samples_per_s": 12345.6})");
  const auto content = RunReport(folder_);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->title, "Capstan run: night");
  EXPECT_THAT(content->facts,
              ElementsAre(Pair("consistency", "ssp"), Pair("workers", "2"),
                          Pair("test accuracy", "97.50 %"), Pair("training", "1.50 s"),
                          Pair("speed", "12,345 samples/s")));
  EXPECT_EQ(content->charts.size(), 6);
}

TEST_F(RunReportTest, TellsHowTheConsistencyWasChanged) {
  Write("progress.jsonl", kProgress);
  Write("summary.json", R"({"consistency": "bsp", "consistency_periods": [
                              {"from_step": 0, "consistency": "bsp", "staleness": 0},
                              {"from_step": 7, "consistency": "ssp", "staleness": 4}]})");
  const auto content = RunReport(folder_);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_THAT(content->facts,
              ElementsAre(Pair("consistency", "bsp; from step 7 on: ssp, staleness 4")));
}

TEST_F(RunReportTest, TellsWhatCodecsDid) {
  Write("progress.jsonl", kProgress);
  Write("summary.json",
        R"({"bytes_pushed": 1000, "bytes_pulled": 500, "push_codec": "int8",
            "pull_codec": "float32", "table_codec": {}, "codec_min_bytes": 0,
            "bytes_pushed_float32": 3940, "bytes_pulled_float32": 500, "push_ratio": 3.94,
            "pull_ratio": 1, "residual_ratio": 0.5, "codec_seconds": 2.25, "residuals_lost": 0})");
  const auto content = RunReport(folder_);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_THAT(content->facts,
              ElementsAre(Pair("pushed", "1.0 kB (3.9x smaller, 3.9 kB as float32)"),
                          Pair("pulled", "500 B (no smaller, 500 B as float32)"),
                          Pair("codecs", "push int8, pull float32"),
                          Pair("residual", "0.5 of the gradient"),
                          Pair("time in codecs", "2.25 s, all workers together"),
                          Pair("residuals lost", "0")));
}

TEST_F(RunReportTest, TrainingThatFailedSaysSoBeforeAllElse) {
  Write("progress.jsonl", kProgress);
  Write("summary.json", R"({"warning": "training has failed: it did"})");
  EXPECT_EQ(RunReport(folder_)->warning, "Warning: training has failed: it did");
  Write("summary.json", R"({"steps": 9})");
  EXPECT_EQ(RunReport(folder_)->warning, "");
}

TEST_F(RunReportTest, ARunThatFailedSaysWhy) {
  Write("progress.jsonl", kProgress);
  Write("summary.json", R"({"outcome": "failed", "reason": "server 0 is lost", "steps": 9})");
  const auto page = RunReport(folder_);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->facts, AllOf(Contains(Pair("outcome", "failed")),
                                 Contains(Pair("reason", "server 0 is lost"))));
}

TEST_F(RunReportTest, ARunWithoutASummaryIsNotDone) {
  Write("progress.jsonl", kProgress);
  const auto content = RunReport(folder_);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_THAT(content->facts, Contains(Pair("outcome", "not done")));
}

TEST_F(RunReportTest, FolderThatIsNotThereIsNamed) {
  const absl::Status status = RunReport("/nonexistent/run").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("there is no folder /nonexistent/run"));
}

TEST_F(RunReportTest, FolderThatIsNotOfARunIsNamed) {
  EXPECT_THAT(Error(), AllOf(HasSubstr(folder_ + "/progress.jsonl"),
                             HasSubstr("is " + folder_ + " the folder of a capstan run?")));
}

TEST_F(RunReportTest, ProgressThatCannotBeReadIsNamedWithItsLine) {
  Write("progress.jsonl", std::string(kProgress) + "nonsense\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr("progress.jsonl: line 2: expected"), HasSubstr("nonsense")));
}

TEST_F(RunReportTest, ProgressWithoutAStepIsAnError) {
  Write("progress.jsonl", "{\"workers\": [{\"worker\": 0, \"steps_done\": 0}]}\n");
  EXPECT_THAT(Error(), HasSubstr("expected at least one step of a worker, got none"));
}

class ReportCommandTest : public RunReportTest {
 protected:
  ReportCommandTest() { Write("progress.jsonl", kProgress); }

  std::string Page(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

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
