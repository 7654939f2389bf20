#include "deploy/cli/report/run_charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

WorkerSample Worker(int64_t worker, double steps_done, double loss) {
  WorkerSample sample;
  sample.worker = worker;
  sample.steps_done = steps_done;
  sample.loss = loss;
  return sample;
}

// Two workers: the first has two reports, the second one.
std::vector<RunSample> TwoWorkers() {
  std::vector<RunSample> samples = {
      {1, {Worker(0, 0, 0), Worker(1, 0, 0)}},
      {2, {Worker(0, 10, 3), Worker(1, 0, 0)}},
      {3, {Worker(0, 10, 3), Worker(1, 20, 1)}},
      {4, {Worker(0, 30, 2), Worker(1, 20, 1)}},
  };
  WorkerSample& first = samples.back().workers[0];
  first.seconds = 10;
  first.seconds_waiting = 4;
  first.seconds_sending = 1;
  first.bytes_pushed = 3 << 20;
  first.bytes_pulled = 1 << 20;
  first.replies_of_staleness = {3, 0, 2};
  first.mean_staleness_seen = 0.8;
  WorkerSample& second = samples.back().workers[1];
  second.bytes_pushed = 1 << 20;
  second.replies_of_staleness = {5};
  return samples;
}

Chart ChartOf(const std::string& id, const std::vector<RunSample>& samples = TwoWorkers()) {
  for (const Chart& chart : RunCharts(samples)) {
    if (chart.id == id) return chart;
  }
  ADD_FAILURE() << "no chart " << id;
  return Chart();
}

TEST(RunChartsTest, LossOverTimeIsOfEachWorkerAndOfTheirMean) {
  const Chart chart = ChartOf("loss_over_time");
  ASSERT_EQ(chart.series.size(), 3);
  EXPECT_EQ(chart.series[0].name, "worker 0");
  EXPECT_THAT(chart.series[0].points, ElementsAre(Pair(2, 3), Pair(4, 2)));
  EXPECT_THAT(chart.series[1].points, ElementsAre(Pair(3, 1)));
  EXPECT_EQ(chart.series[2].name, "mean");
  EXPECT_TRUE(chart.series[2].is_emphasized);
  EXPECT_THAT(chart.series[2].points, ElementsAre(Pair(2, 3), Pair(3, 2), Pair(4, 1.5)));
}

TEST(RunChartsTest, LossOverStepsAndStepsOverTimeAreOfEachWorker) {
  EXPECT_THAT(ChartOf("loss_over_steps").series[0].points, ElementsAre(Pair(10, 3), Pair(30, 2)));
  EXPECT_THAT(ChartOf("steps").series[0].points, ElementsAre(Pair(2, 10), Pair(4, 30)));
  EXPECT_THAT(ChartOf("steps").series[1].points, ElementsAre(Pair(3, 20)));
}

TEST(RunChartsTest, StalenessIsTheShareOfAllReplies) {
  const Chart chart = ChartOf("staleness");
  EXPECT_THAT(chart.categories, ElementsAre("0", "1", "2"));
  ASSERT_EQ(chart.series.size(), 1);
  EXPECT_THAT(chart.series[0].points, ElementsAre(Pair(0, 80), Pair(1, 0), Pair(2, 20)));
  EXPECT_EQ(chart.note, "mean 0.40 steps");
}

TEST(RunChartsTest, TimeOfEachWorkerAddsUp) {
  const Chart chart = ChartOf("time");
  EXPECT_THAT(chart.categories, ElementsAre("0", "1"));
  ASSERT_EQ(chart.series.size(), 3);
  EXPECT_THAT(chart.series[0].points, ElementsAre(Pair(0, 5), Pair(1, 0)));
  EXPECT_THAT(chart.series[1].points, ElementsAre(Pair(0, 4), Pair(1, 0)));
  EXPECT_THAT(chart.series[2].points, ElementsAre(Pair(0, 1), Pair(1, 0)));
}

TEST(RunChartsTest, BytesAreOfAllWorkers) {
  const Chart chart = ChartOf("bytes");
  EXPECT_THAT(chart.series[0].points.back(), Pair(4, 4));
  EXPECT_THAT(chart.series[1].points.back(), Pair(4, 1));
}

// Their pushes are 4 times smaller, and their pulls twice.
std::vector<RunSample> Compressed() {
  std::vector<RunSample> samples = TwoWorkers();
  for (WorkerSample& worker : samples.back().workers) {
    worker.float_bytes_pushed = 4 * worker.bytes_pushed;
    worker.float_bytes_pulled = 2 * worker.bytes_pulled;
    worker.seconds_coding = 0.6;
  }
  WorkerSample& first = samples.back().workers[0];
  first.gradient_squares = 400;
  first.residual_squares = 4;
  return samples;
}

TEST(RunChartsTest, BytesOfAJobWithCodecsAreAlsoShownAsFloat32) {
  const Chart chart = ChartOf("bytes", Compressed());
  ASSERT_EQ(chart.series.size(), 4);
  EXPECT_THAT(chart.series[0].points.back(), Pair(4, 4));
  EXPECT_EQ(chart.series[2].name, "pushed, as float32");
  EXPECT_THAT(chart.series[2].points.back(), Pair(4, 16));
  EXPECT_EQ(chart.series[3].name, "pulled, as float32");
  EXPECT_THAT(chart.series[3].points.back(), Pair(4, 2));
  EXPECT_EQ(chart.note, "pushed 4.0x smaller, pulled 2.0x smaller");
  EXPECT_EQ(ChartOf("time", Compressed()).note, "codecs: 1.2 s, all workers together");
}

TEST(RunChartsTest, BytesAreAlsoOfReplacedWorkers) {
  std::vector<RunSample> samples = Compressed();
  samples.back().replaced_workers = {samples.back().workers[1]};
  samples.back().workers[1] = WorkerSample{};  // the process in its place
  const Chart chart = ChartOf("bytes", samples);
  EXPECT_THAT(chart.series[0].points.back(), Pair(4, 4));
  EXPECT_THAT(chart.series[3].points.back(), Pair(4, 2));
  EXPECT_EQ(ChartOf("time", samples).note, "codecs: 1.2 s, all workers together");
}

TEST(RunChartsTest, TheResidualIsShownBesideTheGradient) {
  const Chart chart = ChartOf("residual", Compressed());
  EXPECT_EQ(chart.series[0].name, "worker 0");
  EXPECT_THAT(chart.series[0].points.back(), Pair(4, 0.1));
}

TEST(RunChartsTest, AJobWithoutCodecsHasNothingOfThem) {
  EXPECT_EQ(ChartOf("bytes").series.size(), 2);
  EXPECT_EQ(ChartOf("bytes").note, "");
  EXPECT_EQ(ChartOf("time").note, "");
  for (const Chart& chart : RunCharts(TwoWorkers())) EXPECT_NE(chart.id, "residual");
}

// A job that goes back from step 20 to step 10, and ends while it starts for the third time.
std::vector<RunSample> Restarted() {
  std::vector<RunSample> samples = {
      {1, {Worker(0, 0, 0)}},  {2, {Worker(0, 10, 5)}}, {3, {Worker(0, 20, 4)}}, {4, {}},
      {5, {Worker(0, 10, 5)}}, {6, {Worker(0, 15, 3)}}, {7, {Worker(0, 30, 2)}}, {8, {}},
  };
  for (RunSample& sample : samples) {
    for (WorkerSample& worker : sample.workers) worker.bytes_pushed = worker.steps_done * (1 << 20);
  }
  samples[6].workers[0].seconds = 3;
  return samples;
}

TEST(RunChartsTest, ARestartIsSeenOverTimeAndRepeatedStepsOnceOverSteps) {
  EXPECT_THAT(ChartOf("steps", Restarted()).series[0].points,
              ElementsAre(Pair(2, 10), Pair(3, 20), Pair(5, 10), Pair(6, 15), Pair(7, 30)));
  EXPECT_THAT(ChartOf("loss_over_time", Restarted()).series[1].points,
              ElementsAre(Pair(2, 5), Pair(3, 4), Pair(5, 5), Pair(6, 3), Pair(7, 2)));
  EXPECT_THAT(ChartOf("loss_over_steps", Restarted()).series[0].points,
              ElementsAre(Pair(10, 5), Pair(15, 3), Pair(30, 2)));
}

TEST(RunChartsTest, TheTimeBetweenTwoLivesHasNoPoints) {
  EXPECT_THAT(
      ChartOf("bytes", Restarted()).series[0].points,
      ElementsAre(Pair(1, 0), Pair(2, 10), Pair(3, 20), Pair(5, 10), Pair(6, 15), Pair(7, 30)));
  EXPECT_THAT(ChartOf("time", Restarted()).series[0].points, ElementsAre(Pair(0, 3)));
}

TEST(RunChartsTest, ARunWithoutAStepHasNone) {
  EXPECT_TRUE(RunCharts({}).empty());
  EXPECT_TRUE(RunCharts({{1, {Worker(0, 0, 0)}}}).empty());
}

}  // namespace
}  // namespace capstan
