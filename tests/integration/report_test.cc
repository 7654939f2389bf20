// The records of a real run, and their page from capstan report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/cli/report/chromium.h"
#include "deploy/cli/report/progress_log.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  // The exit code of `capstan` with these arguments; its log has the name of the command.
  int Capstan(const std::vector<std::string>& args) {
    processes_->Start(args[0], "deploy/cli/capstan", args);
    return processes_->WaitForExit(args[0], absl::Seconds(60)).code;
  }

  std::string run_dir() const { return processes_->path("run-dir"); }

  void RunJob(const std::string& consistency) {
    EXPECT_EQ(Capstan({"run", "--run_dir=" + run_dir(), "--steps=1500", "--num_workers=2",
                       "--heartbeat_seconds=0.02", "--consistency=" + consistency}),
              0)
        << processes_->Log("run");
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(ReportTest, ProgressAgreesWithTheSummary) {
  RunJob("async");
  const auto samples = ParseRunCourse(ReadFile(run_dir() + "/progress.jsonl"));
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_GE(samples->size(), 5);
  const auto summary = nlohmann::json::parse(ReadFile(run_dir() + "/summary.json"));
  double pushed = 0, replies = 0;
  ASSERT_EQ(samples->back().workers.size(), 2);
  for (const WorkerSample& worker : samples->back().workers) {
    EXPECT_EQ(worker.steps_done, 1500);
    EXPECT_GT(worker.seconds_waiting, 0);
    EXPECT_GT(worker.seconds_sending, 0);
    EXPECT_LE(worker.seconds_waiting + worker.seconds_sending, worker.seconds + 0.1);
    pushed += worker.bytes_pushed;
    for (const double count : worker.replies_of_staleness) replies += count;
  }
  EXPECT_EQ(pushed, summary["bytes_pushed"].get<double>());
  // A layer of the built-in model has two tables of one slice each; step 0 is pulled, too.
  EXPECT_GE(replies, 2 * 1501 * 6);
}

TEST_F(ReportTest, WhatCodecsDidIsToldEverywhere) {
  ASSERT_EQ(Capstan({"run", "--run_dir=" + run_dir(), "--steps=300", "--num_workers=2",
                     "--heartbeat_seconds=0.02", "--push_codec=int8", "--pull_codec=bfloat16",
                     "--field=codec.min_bytes=0"}),
            0)
      << processes_->Log("run");
  const auto summary = nlohmann::json::parse(ReadFile(run_dir() + "/summary.json"));
  // Two bytes of four, and a byte and a 64th.
  EXPECT_EQ(summary["pull_ratio"], 2.0);
  EXPECT_GT(summary["push_ratio"], 3.8);
  EXPECT_LT(summary["push_ratio"], 3.94);
  EXPECT_GT(summary["residual_ratio"], 0);
  EXPECT_LT(summary["residual_ratio"], 0.5);
  EXPECT_GT(summary["codec_seconds"], 0);
  const auto samples = ParseRunCourse(ReadFile(run_dir() + "/progress.jsonl"));
  ASSERT_TRUE(samples.ok()) << samples.status();
  double before = 0;
  for (const WorkerSample& worker : samples->back().workers) before += worker.float_bytes_pushed;
  EXPECT_EQ(before, summary["bytes_pushed_float32"].get<double>());
  EXPECT_THAT(processes_->Log("run"), HasSubstr("x smaller), pulled "));
  EXPECT_THAT(processes_->Log("run"), HasSubstr("codecs             push int8, pull bfloat16\n"));
  ASSERT_EQ(Capstan({"report", run_dir()}), 0) << processes_->Log("report");
  EXPECT_EQ(processes_->LastLine("report"),
            absl::StrCat(run_dir(), "/report.html: 7 charts; open it in a browser"));
  const RenderedPage page = RenderPage(ReadFile(run_dir() + "/report.html"));
  std::vector<std::string> drawn;
  for (const DrawnSeries& series : FindSeries(page.dom)) {
    if (series.chart == "bytes" || series.chart == "residual") drawn.push_back(series.name);
  }
  EXPECT_THAT(drawn, testing::ElementsAre("pushed", "pulled", "pushed, as float32",
                                          "pulled, as float32", "worker 0", "worker 1"));
  EXPECT_THAT(page.dom, HasSubstr("pulled 2.0x smaller"));
}

TEST_F(ReportTest, ABrowserShowsEverySeries) {
  RunJob("bsp");
  ASSERT_EQ(Capstan({"report", run_dir()}), 0) << processes_->Log("report");
  EXPECT_EQ(processes_->LastLine("report"),
            absl::StrCat(run_dir(), "/report.html: 6 charts; open it in a browser"));
  const RenderedPage page = RenderPage(ReadFile(run_dir() + "/report.html"));
  std::vector<std::string> charts;
  for (const DrawnSeries& series : FindSeries(page.dom)) {
    if (charts.empty() || charts.back() != series.chart) charts.push_back(series.chart);
    EXPECT_GE(series.points, series.chart == "staleness" ? 1 : 2) << series.chart << series.name;
  }
  EXPECT_THAT(charts, testing::ElementsAre("loss_over_time", "loss_over_steps", "steps",
                                           "staleness", "time", "bytes"));
  EXPECT_THAT(page.dom, HasSubstr("Capstan run: capstan"));
  EXPECT_THAT(page.dom, HasSubstr("test accuracy"));
}

TEST_F(ReportTest, TrainingThatFailedSaysSoEverywhereAndEndsWithZero) {
  EXPECT_EQ(Capstan({"run", "--run_dir=" + run_dir(), "--learning_rate=1"}), 0);
  const auto summary = nlohmann::json::parse(ReadFile(run_dir() + "/summary.json"));
  const std::string warning = summary.value("warning", "none");
  EXPECT_THAT(warning, AllOf(StartsWith("training has failed: "),
                             HasSubstr("try a smaller --learning_rate, such as 0.1")));
  EXPECT_EQ(processes_->LastLine("run"), "warning: " + warning);
  ASSERT_EQ(Capstan({"report", run_dir()}), 0) << processes_->Log("report");
  EXPECT_THAT(ReadFile(run_dir() + "/report.html"), HasSubstr("Warning: training has failed: "));
}

TEST_F(ReportTest, AFewStepsAreNoFailedTraining) {
  for (const std::string steps : {"1", "5", "20"}) {
    EXPECT_EQ(Capstan({"run", "--run_dir=" + run_dir(), "--learning_rate=1", "--steps=" + steps}),
              0);
    EXPECT_THAT(ReadFile(run_dir() + "/summary.json"), Not(HasSubstr("warning")));
  }
}

TEST_F(ReportTest, ARunWithoutAStepSaysWhatIsMissing) {
  EXPECT_EQ(Capstan({"run", "--run_dir=" + run_dir(), "--data_format=csv",
                     "--data_path=/nonexistent.csv"}),
            1);
  EXPECT_EQ(Capstan({"report", run_dir()}), 1);
  EXPECT_THAT(processes_->LastLine("report"),
              HasSubstr("expected at least one step of a worker, got none"));
}

}  // namespace
}  // namespace capstan
