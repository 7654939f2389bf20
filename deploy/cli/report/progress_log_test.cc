#include "deploy/cli/report/progress_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::GetStatusReply Training(int64_t steps_done) {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(v1::TRAINING);
  status.mutable_view()->add_workers()->set_worker(0);
  v1::Progress& progress = *status.add_progress();
  progress.set_steps_done(steps_done);
  progress.set_loss(0.5);
  progress.set_bytes_pushed(10);
  progress.set_bytes_pulled(20);
  progress.set_seconds(4);
  progress.set_seconds_waiting(1);
  progress.set_seconds_sending(2);
  progress.set_mean_staleness_seen(0.25);
  progress.add_replies_of_staleness(3);
  progress.add_replies_of_staleness(1);
  return status;
}

class ProgressLogTest : public ::testing::Test {
 protected:
  std::vector<RunSample> Written() {
    EXPECT_TRUE(log_.Close().ok());
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    const auto samples = ParseRunCourse(text.str());
    EXPECT_TRUE(samples.ok()) << samples.status();
    return samples.ok() ? *samples : std::vector<RunSample>();
  }

  const std::string path_ = ::testing::TempDir() + "/progress.jsonl";
  ProgressLog log_{path_};
};

TEST_F(ProgressLogTest, WhatIsWrittenIsReadBack) {
  log_.Append(absl::Milliseconds(1500), Training(7));
  const std::vector<RunSample> samples = Written();
  ASSERT_EQ(samples.size(), 1);
  EXPECT_EQ(samples[0].seconds, 1.5);
  const WorkerSample& worker = samples[0].workers[0];
  EXPECT_EQ(worker.worker, 0);
  EXPECT_EQ(worker.steps_done, 7);
  EXPECT_EQ(worker.loss, 0.5);
  EXPECT_EQ(worker.bytes_pushed, 10);
  EXPECT_EQ(worker.bytes_pulled, 20);
  EXPECT_EQ(worker.seconds, 4);
  EXPECT_EQ(worker.seconds_waiting, 1);
  EXPECT_EQ(worker.seconds_sending, 2);
  EXPECT_EQ(worker.mean_staleness_seen, 0.25);
  EXPECT_THAT(worker.replies_of_staleness, ElementsAre(3, 1));
}

TEST_F(ProgressLogTest, TheWorkOfCodecsIsThereInAJobWithACodec) {
  v1::GetStatusReply status = Training(7);
  v1::Progress& progress = *status.mutable_progress(0);
  progress.set_float_bytes_pushed(30);
  progress.set_float_bytes_pulled(40);
  progress.set_gradient_squares(2.5);
  progress.set_residual_squares(0.5);
  progress.set_seconds_coding(0.25);
  log_.Append(absl::ZeroDuration(), status);
  status.mutable_codec()->set_push("int8");
  log_.Append(absl::Seconds(1), status);
  const std::vector<RunSample> samples = Written();
  ASSERT_EQ(samples.size(), 2);
  EXPECT_EQ(samples[0].workers[0].float_bytes_pushed, 0) << "no codec";
  EXPECT_EQ(samples[0].workers[0].seconds_coding, 0) << "no codec";
  const WorkerSample& worker = samples[1].workers[0];
  EXPECT_EQ(worker.float_bytes_pushed, 30);
  EXPECT_EQ(worker.float_bytes_pulled, 40);
  EXPECT_EQ(worker.gradient_squares, 2.5);
  EXPECT_EQ(worker.residual_squares, 0.5);
  EXPECT_EQ(worker.seconds_coding, 0.25);
}

TEST_F(ProgressLogTest, ReplacedWorkersStay) {
  v1::GetStatusReply status = Training(7);
  *status.add_replaced_workers() = status.progress(0);
  status.mutable_progress(0)->Clear();
  log_.Append(absl::ZeroDuration(), status);
  const std::vector<RunSample> samples = Written();
  ASSERT_EQ(samples[0].replaced_workers.size(), 1);
  EXPECT_EQ(samples[0].replaced_workers[0].bytes_pushed, 10);
  EXPECT_EQ(samples[0].workers[0].bytes_pushed, 0);
}

TEST_F(ProgressLogTest, AStatusWithoutProgressIsNotWritten) {
  for (int i = 0; i < 10; ++i) log_.Append(absl::Seconds(i), Training(7));
  EXPECT_EQ(Written().size(), 1);
}

TEST_F(ProgressLogTest, AWorkerOfWhichNothingIsKnownYetHasNoSteps) {
  v1::GetStatusReply status = Training(7);
  status.clear_progress();
  log_.Append(absl::ZeroDuration(), status);
  EXPECT_EQ(Written()[0].workers[0].steps_done, 0);
}

TEST_F(ProgressLogTest, ALongJobIsKeptMoreCoarsely) {
  // One hour, with a status every 20 ms.
  for (int i = 1; i <= 50 * 3600; ++i) log_.Append(i * absl::Milliseconds(20), Training(i));
  const size_t count = Written().size();
  EXPECT_GT(count, 2000);
  EXPECT_LT(count, 4000);
}

TEST_F(ProgressLogTest, ANewPhaseIsWrittenAtOnce) {
  log_.Append(absl::Hours(1), Training(7));
  v1::GetStatusReply done = Training(8);
  done.mutable_view()->set_phase(v1::DONE);
  log_.Append(absl::Hours(1) + absl::Milliseconds(1), done);
  EXPECT_EQ(Written().back().workers[0].steps_done, 8);
}

TEST(ProgressLogErrorTest, AFileThatCannotBeWrittenIsNamed) {
  ProgressLog log("/nonexistent/progress.jsonl");
  log.Append(absl::ZeroDuration(), Training(1));
  EXPECT_THAT(std::string(log.Close().message()), HasSubstr("/nonexistent/progress.jsonl"));
}

constexpr char kLine[] =
    R"({"seconds": 1.5, "workers": [{"worker": 3, "steps_done": 7, "replies_of_staleness": [4, 1]}]})";

TEST(RunCourseTest, ReadsEachLine) {
  const auto samples = ParseRunCourse(std::string(kLine) + "\n" + kLine + "\n");
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 2);
  EXPECT_EQ((*samples)[1].seconds, 1.5);
  const WorkerSample& worker = (*samples)[1].workers[0];
  EXPECT_EQ(worker.worker, 3);
  EXPECT_EQ(worker.steps_done, 7);
  EXPECT_EQ(worker.loss, 0) << "is not there";
  EXPECT_THAT(worker.replies_of_staleness, ElementsAre(4, 1));
}

TEST(RunCourseTest, ALastLineThatIsBrokenOffIsLeftOut) {
  const auto samples = ParseRunCourse(std::string(kLine) + "\n{\"seconds\": 2, \"wor");
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples->size(), 1);
  EXPECT_TRUE(ParseRunCourse("")->empty());
}

TEST(RunCourseTest, AnythingElseIsRefusedWithItsLine) {
  for (const std::string bad : {"7", "{}", "{\"workers\": 1}", "nonsense", ""}) {
    const absl::Status status = ParseRunCourse(std::string(kLine) + "\n" + bad + "\n").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("line 2: expected a status of a job"));
  }
}

TEST(RunCourseTest, FieldsOfAnotherTypeCountAsMissing) {
  const auto samples = ParseRunCourse(
      "{\"seconds\": \"x\", \"workers\": [7, {\"worker\": 1e300, \"loss\": null, "
      "\"replies_of_staleness\": "
      "[\"x\"]}]}\n");
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ((*samples)[0].seconds, 0);
  EXPECT_EQ((*samples)[0].workers[1].worker, 0);
  EXPECT_THAT((*samples)[0].workers[1].replies_of_staleness, ElementsAre(0));
}

}  // namespace
}  // namespace capstan
