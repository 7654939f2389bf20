#include "deploy/cli/text/progress_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::_;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

v1::ClusterSpec Cluster() {
  v1::ClusterSpec cluster;
  cluster.set_num_workers(2);
  cluster.set_num_servers(1);
  return cluster;
}

ProgressSample Registering() {
  ProgressSample sample;
  sample.status.mutable_view()->set_phase(v1::REGISTERING);
  sample.status.mutable_view()->add_servers()->set_is_live(true);
  return sample;
}

// Worker `i` has done steps[i] of 100. Each step has 10 samples and 1 kB each way. Worker 0 was one
// step ahead of the slowest, worker 1 three, ...
ProgressSample Training(absl::Duration elapsed, std::vector<int> steps) {
  ProgressSample sample = Registering();
  sample.elapsed = elapsed;
  sample.status.mutable_view()->set_phase(v1::TRAINING);
  for (size_t i = 0; i < steps.size(); ++i) {
    v1::WorkerInfo* worker = sample.status.mutable_view()->add_workers();
    worker->set_worker(i);
    worker->set_is_live(true);
    v1::Progress* progress = sample.status.add_progress();
    progress->set_steps_done(steps[i]);
    progress->set_steps_total(100);
    progress->set_steps_ahead(1 + 2 * i);
    progress->set_loss(0.5 + i);
    progress->set_samples(10 * steps[i]);
    progress->set_bytes_pushed(1000 * steps[i]);
    progress->set_bytes_pulled(1000 * steps[i]);
    progress->set_seconds(absl::ToDoubleSeconds(elapsed));
  }
  return sample;
}

TEST(ProgressLinesTest, MembersAreCountedWhileTheyRegister) {
  EXPECT_EQ(OverallLine(Registering(), Registering(), Cluster()),
            "  0:00  0/2 workers, 1/1 servers, waiting for members");
  ProgressSample measuring = Registering();
  measuring.status.mutable_view()->set_measures_links(true);
  EXPECT_EQ(OverallLine(measuring, measuring, Cluster()),
            "  0:00  0/2 workers, 1/1 servers, measuring links");
}

TEST(ProgressLinesTest, OverallLineAddsUpTheWorkers) {
  EXPECT_EQ(OverallLine(Training(absl::Seconds(10), {40, 60}), Training(absl::Seconds(8), {20, 30}),
                        Cluster()),
            "  0:10  2/2 workers, 1/1 servers, training 50%, loss 1.0000, 250 samples/s");
}

TEST(ProgressLinesTest, EachWorkerHasItsStepRatesAndDistance) {
  EXPECT_THAT(
      WorkerLines(Training(absl::Seconds(10), {40, 60}), Training(absl::Seconds(8), {20, 30})),
      ElementsAre(
          "worker-0  step    40/100     2 behind loss 0.5000     100 samples/s  20.0 kB/s",
          "worker-1  step    60/100     0 behind loss 1.5000     150 samples/s  30.0 kB/s"));
}

TEST(ProgressLinesTest, StepsBehindDoNotDependOnWhenEachWorkerReported) {
  ProgressSample now = Training(absl::Seconds(10), {40, 49});
  for (v1::Progress& progress : *now.status.mutable_progress()) progress.set_steps_ahead(0);
  EXPECT_THAT(WorkerLines(now, now), Each(HasSubstr("  0 behind")));
}

TEST(ProgressLinesTest, NothingIsSaidOfLossAndRatesBeforeTheFirstStep) {
  const ProgressSample now = Training(absl::Seconds(1), {0, 0});
  EXPECT_EQ(OverallLine(now, now, Cluster()), "  0:01  2/2 workers, 1/1 servers, training 0%");
  EXPECT_THAT(WorkerLines(now, now), ElementsAre("worker-0  step     0/100", _));
}

TEST(ProgressLinesTest, LinesOfAFastJobFitIntoATerminalOf80Columns) {
  ProgressSample now = Training(absl::Seconds(1), {12345, 12345});
  for (v1::Progress& progress : *now.status.mutable_progress()) {
    progress.set_steps_total(99999);
    progress.set_samples(234567);
    progress.set_bytes_pushed(123'400'000);
  }
  std::vector<std::string> lines = WorkerLines(now, Registering());
  EXPECT_THAT(lines, Each(HasSubstr("234,567 samples/s 135.7 MB/s")));
  lines.push_back(OverallLine(now, Registering(), Cluster()));
  EXPECT_THAT(lines.back(), EndsWith(" 469,134 samples/s"));
  // One column is for the cursor.
  for (const std::string& line : lines) EXPECT_LE(line.size(), 79u) << line;
}

TEST(ProgressLinesTest, FirstSampleGivesRatesSinceTheStart) {
  EXPECT_THAT(WorkerLines(Training(absl::Seconds(10), {40}), Registering()),
              ElementsAre(HasSubstr(" 40 samples/s")));
}

TEST(ProgressLinesTest, FinishedWorkerKeepsItsMeanRate) {
  const ProgressSample now = Training(absl::Seconds(10), {100});
  EXPECT_THAT(WorkerLines(now, now), ElementsAre(HasSubstr(" 100 samples/s")));
}

TEST(ProgressLinesTest, WorkerThatDoesNotMoveHasNoRate) {
  const ProgressSample now = Training(absl::Seconds(10), {50});
  EXPECT_THAT(WorkerLines(now, now), ElementsAre(HasSubstr(" 0 samples/s")));
}

TEST(ProgressLinesTest, AProgramThatDoesNotTellItsStepsHasNoTotal) {
  ProgressSample now = Training(absl::Seconds(10), {120, 110});
  for (v1::Progress& progress : *now.status.mutable_progress()) progress.set_steps_total(0);
  EXPECT_EQ(OverallLine(now, Registering(), Cluster()),
            "  0:10  2/2 workers, 1/1 servers, training, step 110, loss 1.0000, 230 samples/s");
  EXPECT_THAT(
      WorkerLines(now, Registering()),
      ElementsAre(
          "worker-0  step   120         2 behind loss 0.5000     120 samples/s  24.0 kB/s",
          "worker-1  step   110         0 behind loss 1.5000     110 samples/s  22.0 kB/s"));
}

TEST(ProgressLinesTest, AProgramThatCountsNoSamplesHasNoLoss) {
  ProgressSample now = Training(absl::Seconds(10), {120});
  now.status.mutable_progress(0)->set_samples(0);
  EXPECT_THAT(WorkerLines(now, Registering()),
              ElementsAre("worker-0  step   120/100     0 behind  24.0 kB/s"));
  EXPECT_THAT(OverallLine(now, Registering(), Cluster()), Not(HasSubstr("loss")));
}

TEST(ProgressLinesTest, LostWorkerIsMarkedAndNotCounted) {
  ProgressSample now = Training(absl::Seconds(10), {40, 60});
  now.status.mutable_view()->mutable_workers(1)->set_is_live(false);
  EXPECT_THAT(WorkerLines(now, now), ElementsAre(HasSubstr(" 0 behind"), EndsWith(" lost")));
  EXPECT_THAT(OverallLine(now, now, Cluster()),
              testing::AllOf(HasSubstr("1/2 workers"), HasSubstr("training 40%, ")));
}

TEST(ProgressLinesTest, AWorkerThatHasLeftAfterItsStepsIsNotLost) {
  ProgressSample now = Training(absl::Seconds(10), {40, 100});
  now.status.mutable_view()->mutable_workers(1)->set_is_live(false);
  EXPECT_THAT(WorkerLines(now, now), ElementsAre(HasSubstr(" 0 behind"), EndsWith(" done")));
}

TEST(ProgressLinesTest, ALostWorkersPlaceMayBeHeld) {
  ProgressSample now = Training(absl::Seconds(10), {40, 40});
  now.status.mutable_view()->mutable_workers(1)->set_is_live(false);
  EXPECT_THAT(WorkerLines(now, now), ElementsAre(_, EndsWith(" lost")));
  now.status.mutable_view()->mutable_workers(1)->set_holds_place(true);
  EXPECT_THAT(WorkerLines(now, now), ElementsAre(_, EndsWith(" lost; its place is held")));
}

TEST(ProgressLinesTest, WorkerThatTakesAnothersPlaceIsMarkedAndHasNoLossBeforeItComputes) {
  ProgressSample now = Training(absl::Seconds(10), {40, 0});
  now.status.mutable_view()->mutable_workers(1)->set_is_entering(true);
  EXPECT_THAT(WorkerLines(now, now), ElementsAre(HasSubstr(" behind loss"),
                                                 EndsWith("0/100   taking a lost worker's place")));
  now.status.mutable_view()->mutable_workers(1)->set_is_entering(false);
  now.status.mutable_progress(1)->set_steps_done(30);
  EXPECT_THAT(WorkerLines(now, now), ElementsAre(_, EndsWith("step    30/100")));
  EXPECT_THAT(OverallLine(now, now, Cluster()), HasSubstr("training 35%, loss 0.5000, "));
}

TEST(ProgressLinesTest, ReplyWithoutProgressIsNoError) {
  ProgressSample now = Training(absl::Seconds(1), {1});
  now.status.clear_progress();
  EXPECT_THAT(WorkerLines(now, now), ElementsAre(HasSubstr("step     0")));
  EXPECT_THAT(OverallLine(now, now, Cluster()), Not(HasSubstr("%")));
}

// 100 MB and 61.7 MB were sent for 394 MB and 123.4 MB.
v1::GetStatusReply Compressed() {
  v1::GetStatusReply status = Training(absl::Seconds(10), {40, 60}).status;
  status.mutable_codec()->set_push("int8");
  for (v1::Progress& progress : *status.mutable_progress()) {
    progress.set_bytes_pushed(50'000'000);
    progress.set_float_bytes_pushed(197'000'000);
    progress.set_bytes_pulled(30'850'000);
    progress.set_float_bytes_pulled(61'700'000);
    progress.set_seconds_coding(0.6);
  }
  status.mutable_progress(0)->set_gradient_squares(300);
  status.mutable_progress(1)->set_gradient_squares(100);
  status.mutable_progress(1)->set_residual_squares(25);
  return status;
}

TEST(ProgressLinesTest, CodecsAreOfAllWorkers) {
  EXPECT_EQ(CodecLine(Compressed()),
            "pushed 100.0 MB (3.9x smaller), pulled 61.7 MB (2.0x smaller), residual 0.25 of the "
            "gradient, codecs 1.2 s");
}

TEST(ProgressLinesTest, CodecsAreAlsoOfReplacedWorkers) {
  v1::GetStatusReply status = Compressed();
  *status.add_replaced_workers() = status.progress(1);
  status.mutable_progress(1)->Clear();  // the process in its place
  EXPECT_EQ(CodecLine(status), CodecLine(Compressed()));
}

TEST(ProgressLinesTest, NothingIsSaidOfCodecsThatAJobDoesNotHave) {
  v1::GetStatusReply status = Compressed();
  status.clear_codec();
  EXPECT_EQ(CodecLine(status), "");
}

TEST(ProgressLinesTest, NothingIsSaidOfCodecsBeforeTheirFirstBytes) {
  v1::GetStatusReply status = Training(absl::Seconds(1), {0}).status;
  status.mutable_codec()->set_push("int8");
  EXPECT_EQ(CodecLine(status), "");
  status.mutable_progress(0)->set_bytes_pulled(1500);
  status.mutable_progress(0)->set_float_bytes_pulled(1500);
  EXPECT_EQ(CodecLine(status), "pulled 1.5 kB (no smaller), codecs 0.0 s");
}

}  // namespace
}  // namespace capstan
