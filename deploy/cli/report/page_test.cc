// The pages in a browser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "deploy/cli/report/chart_page.h"
#include "deploy/cli/report/chromium.h"
#include "deploy/cli/report/progress_log.h"
#include "deploy/cli/report/run_charts.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// As "chart/series: points".
std::vector<std::string> DrawnOn(const RenderedPage& page) {
  std::vector<std::string> drawn;
  for (const DrawnSeries& series : FindSeries(page.dom)) {
    drawn.push_back(absl::StrCat(series.chart, "/", series.name, ": ", series.points));
  }
  return drawn;
}

// A run of two workers with 20 reports.
std::vector<RunSample> TwoWorkers() {
  std::vector<RunSample> samples;
  for (int i = 1; i <= 20; ++i) {
    RunSample& sample = samples.emplace_back();
    sample.seconds = 0.5 * i;
    for (int worker = 0; worker < 2; ++worker) {
      WorkerSample& report = sample.workers.emplace_back();
      report.worker = worker;
      report.steps_done = (10 - worker) * i;
      report.loss = 2.0 / i + 0.1 * worker;
      report.bytes_pushed = report.bytes_pulled = 1e6 * i;
      report.seconds = 0.5 * i;
      report.seconds_waiting = 0.1 * i;
      report.seconds_sending = 0.05 * i;
      report.mean_staleness_seen = 0.5;
      report.replies_of_staleness = {1.0 * i, 1.0 * i};
    }
  }
  return samples;
}

TEST(PageTest, EverySeriesOfARunIsDrawn) {
  const RenderedPage page = RenderPage(
      ChartPage({"Run <1>", "", "It <failed>", {{"accuracy", "98 %"}}, RunCharts(TwoWorkers())}));
  EXPECT_THAT(DrawnOn(page),
              ::testing::ElementsAre("loss_over_time/worker 0: 20", "loss_over_time/worker 1: 20",
                                     "loss_over_time/mean: 20", "loss_over_steps/worker 0: 20",
                                     "loss_over_steps/worker 1: 20", "steps/worker 0: 20",
                                     "steps/worker 1: 20", "staleness/replies: 2",
                                     "time/compute: 2", "time/waiting for values: 2",
                                     "time/sending: 2", "bytes/pushed: 20", "bytes/pulled: 20"));
  EXPECT_THAT(page.dom, HasSubstr("<h1>Run &lt;1&gt;</h1>"));
  EXPECT_THAT(page.dom, HasSubstr("<p id=\"warning\">It &lt;failed&gt;</p>"));
  EXPECT_THAT(page.dom, HasSubstr("<b>98 %</b>"));
  EXPECT_THAT(page.dom, Not(HasSubstr("NaN")));
  // The screenshot of an empty page has 8 KB.
  EXPECT_GT(std::filesystem::file_size(page.screenshot), 30'000);
}

TEST(PageTest, PointsAreWhereTheirNumbersSay) {
  Chart chart;
  chart.id = "line";
  chart.series = {{"a", {{0, 0}, {5, 50}, {10, 100}}}};
  const RenderedPage page = RenderPage(ChartPage({"", "", "", {}, {chart}}));
  EXPECT_THAT(page.dom, Not(HasSubstr("id=\"warning\"")));
  // 484 x 248 pixels. x: time up to 10. y: from 0 up to 100 and 4 % of room.
  EXPECT_THAT(page.dom, HasSubstr("d=\"M0,248L242,128.8L484,9.5\""));
}

TEST(PageTest, ALogarithmicAxisHasNoPlaceForZero) {
  Chart chart;
  chart.id = "log";
  chart.is_log = true;
  chart.series = {{"a", {{0, 0}, {5, 1}, {10, 100}}}};
  EXPECT_THAT(DrawnOn(RenderPage(ChartPage({"", "", "", {}, {chart}}))),
              ::testing::ElementsAre("log/a: 2"));
}

TEST(PageTest, BarsStandBesideOrOnEachOther) {
  Chart beside;
  beside.kind = Chart::Kind::kBars;
  beside.id = "beside";
  beside.categories = {"x", "y"};
  beside.series = {{"a", {{0, 1}, {1, 2}}}, {"b", {{1, 3}}}};
  Chart stacked = beside;
  stacked.kind = Chart::Kind::kStackedBars;
  stacked.id = "stacked";
  EXPECT_THAT(DrawnOn(RenderPage(ChartPage({"", "", "", {}, {beside, stacked}}))),
              ::testing::ElementsAre("beside/a: 2", "beside/b: 1", "stacked/a: 2", "stacked/b: 1"));
}

}  // namespace
}  // namespace capstan
