#include "server/coordinator/job_outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace capstan {
namespace {

void AddWorker(JobOutcome& outcome, bool is_live, double loss, int64_t steps, int64_t staleness) {
  outcome.last_status.mutable_view()->add_workers()->set_is_live(is_live);
  v1::Progress* progress = outcome.last_status.add_progress();
  progress->set_loss(loss);
  progress->set_steps_done(steps);
  progress->set_samples(100);
  progress->set_bytes_pushed(1000);
  progress->set_bytes_pulled(2000);
  progress->set_max_staleness_seen(staleness);
  progress->set_median_step_seconds(1.0 / static_cast<double>(staleness));
  progress->set_mean_staleness_seen(0.5 * static_cast<double>(staleness));
  progress->set_device("cpu");
  progress->set_transport("grpc");
}

JobOutcome Outcome() {
  JobOutcome outcome;
  AddWorker(outcome, /*is_live=*/true, /*loss=*/0.25, /*steps=*/10, /*staleness=*/1);
  AddWorker(outcome, /*is_live=*/false, /*loss=*/9, /*steps=*/4, /*staleness=*/3);
  AddWorker(outcome, /*is_live=*/true, /*loss=*/0.75, /*steps=*/10, /*staleness=*/2);
  outcome.last_status.mutable_view()->add_consistency();
  outcome.result.set_test_accuracy(0.875);
  outcome.result.set_test_loss(0.5);
  outcome.result.set_parameters_xxh3(0xabc);
  outcome.training_time = absl::Seconds(2);
  outcome.workers_lost = 1;
  return outcome;
}

v1::JobSpec Job() {
  v1::JobSpec job;
  job.set_name("digits");
  job.mutable_cluster()->set_num_workers(3);
  return job;
}

nlohmann::json Summary(const v1::JobSpec& job, const JobOutcome& outcome) {
  return nlohmann::json::parse(SummaryJson(job, outcome));
}

TEST(SummaryTest, HasEveryFigure) {
  EXPECT_EQ(Summary(Job(), Outcome()), nlohmann::json::parse(R"({
    "job": "digits", "outcome": "finished", "devices": ["cpu", "cpu", "cpu"], "transport": "grpc",
    "consistency": "bsp", "staleness": 0, "consistency_periods": [{"from_step": 0, "consistency": "bsp", "staleness": 0}],
    "workers": 3, "servers": 2,
    "test_accuracy": 0.875, "test_loss": 0.5, "train_loss": 0.5, "steps": 10, "seconds": 2.0,
    "median_step_seconds": 1.0,
    "samples": 300, "samples_per_s": 150.0, "bytes_pushed": 3000, "bytes_pulled": 6000,
    "mean_staleness_seen": 1.0, "max_staleness_seen": 3, "parameters_xxh3": "0000000000000abc", "workers_lost": 1,
    "workers_replaced": 0})"));
}

TEST(SummaryTest, AJobOfRowsAloneHasNoHash) {
  JobOutcome outcome = Outcome();
  v1::JobView& view = *outcome.last_status.mutable_view();
  view.add_tables()->mutable_sparse()->set_dim(1);
  EXPECT_FALSE(Summary(Job(), outcome).contains("parameters_xxh3"));
  view.add_tables()->add_shape(3);
  EXPECT_TRUE(Summary(Job(), outcome).contains("parameters_xxh3"));
}

TEST(SummaryTest, AJobThatHasNotFinishedHasAReasonAndNoResult) {
  JobOutcome outcome = Outcome();
  for (const auto& [status, text] : {std::pair(absl::AbortedError("a server is lost"), "failed"),
                                     std::pair(absl::CancelledError("a signal"), "interrupted")}) {
    outcome.status = status;
    const nlohmann::json summary = Summary(Job(), outcome);
    EXPECT_EQ(summary["outcome"], text);
    EXPECT_EQ(summary["reason"], std::string(status.message()));
    EXPECT_EQ(summary["steps"], 10);
    EXPECT_EQ(summary["train_loss"], 0.5);
    for (const char* const key : {"test_accuracy", "test_loss", "parameters_xxh3", "warning"}) {
      EXPECT_FALSE(summary.contains(key)) << key;
    }
  }
}

TEST(SummaryTest, NamesEachTransportOnce) {
  JobOutcome outcome = Outcome();
  outcome.last_status.mutable_progress(2)->set_transport("ucx");
  EXPECT_EQ(Summary(Job(), outcome)["transport"], "grpc, ucx");
  for (v1::Progress& progress : *outcome.last_status.mutable_progress()) progress.clear_transport();
  EXPECT_FALSE(Summary(Job(), outcome).contains("transport"));
}

TEST(SummaryTest, StepsMayBeRoundsOfLocalSteps) {
  JobOutcome outcome = Outcome();
  for (const char* const key : {"local_steps", "sync_every", "round_seconds", "drift"}) {
    EXPECT_FALSE(Summary(Job(), outcome).contains(key)) << key;
  }
  v1::GetStatusReply& status = outcome.last_status;
  v1::LocalSteps& local_steps = *status.mutable_view()->mutable_local_steps();
  local_steps.set_sync_every(50);
  EXPECT_FALSE(Summary(Job(), outcome).contains("drift")) << "it is not known";
  for (int worker = 0; worker < 3; ++worker) {
    status.mutable_progress(worker)->set_local_steps(500);
    status.mutable_progress(worker)->set_drift(0.25 * (worker + 1));
  }
  status.add_replaced_workers()->set_local_steps(100);
  nlohmann::json summary = Summary(Job(), outcome);
  EXPECT_EQ(summary["steps"], 10);
  EXPECT_EQ(summary["local_steps"], 1600);
  EXPECT_EQ(summary["sync_every"], 50);
  EXPECT_EQ(summary["drift"], 0.5) << "worker 1 is lost";
  EXPECT_FALSE(summary.contains("round_seconds"));
  local_steps.set_sync_every(0);
  local_steps.set_round_seconds(2.5);
  summary = Summary(Job(), outcome);
  EXPECT_EQ(summary["round_seconds"], 2.5);
  EXPECT_FALSE(summary.contains("sync_every"));
}

// Two workers, and one in whose place another has entered.
JobOutcome CompressedOutcome() {
  JobOutcome outcome = Outcome();
  outcome.last_status.add_replaced_workers()->set_bytes_pushed(1000);
  for (v1::Progress* progress :
       {outcome.last_status.mutable_progress(0), outcome.last_status.mutable_progress(1),
        outcome.last_status.mutable_replaced_workers(0)}) {
    progress->set_float_bytes_pushed(5200);
    progress->set_float_bytes_pulled(6000);
    progress->set_gradient_squares(12);
    progress->set_residual_squares(3);
    progress->set_seconds_coding(0.25);
  }
  return outcome;
}

TEST(SummaryTest, TellsWhatCodecsDid) {
  v1::JobSpec job = Job();
  job.mutable_codec()->set_push("topk:0.01:int8");
  job.mutable_codec()->set_min_bytes(512);
  v1::TableCodec& own = *job.mutable_codec()->add_table_codec();
  own.set_table("fc3.bias");
  own.set_codec("float32");
  nlohmann::json summary = Summary(job, CompressedOutcome());
  const nlohmann::json expected = nlohmann::json::parse(R"({
    "push_codec": "topk:0.01:int8", "pull_codec": "float32",
    "table_codec": {"fc3.bias": "float32"}, "codec_min_bytes": 512,
    "bytes_pushed_float32": 15600, "bytes_pulled_float32": 18000, "push_ratio": 3.9,
    "pull_ratio": 3.0, "residual_ratio": 0.5, "codec_seconds": 0.75, "residuals_lost": 1})");
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(summary[key], value) << key;
}

TEST(SummaryTest, SaysNothingOfCodecsInAJobWithoutThem) {
  v1::JobSpec job = Job();
  job.mutable_codec()->set_push("float32");
  v1::TableCodec& own = *job.mutable_codec()->add_table_codec();
  own.set_table("fc3.bias");
  own.set_codec("float32");
  EXPECT_EQ(Summary(job, CompressedOutcome()), Summary(Job(), CompressedOutcome()));
  EXPECT_FALSE(Summary(job, CompressedOutcome()).contains("push_codec"));
}

TEST(SummaryTest, WithoutACodecOfGradientsNoResidualIsLost) {
  v1::JobSpec job = Job();
  job.mutable_codec()->set_pull("bfloat16");
  JobOutcome outcome = Outcome();
  outcome.last_status.add_replaced_workers();
  const nlohmann::json summary = Summary(job, outcome);
  EXPECT_EQ(summary["residuals_lost"], 0);
  EXPECT_TRUE(summary["residual_ratio"].is_null());
}

TEST(SummaryTest, WarnsIfTheLastCheckpointCouldNotBeWritten) {
  JobOutcome outcome = Outcome();
  v1::CheckpointStatus& checkpoints = *outcome.last_status.mutable_checkpoint();
  checkpoints.set_error("the disk is full");
  EXPECT_EQ(Summary(Job(), outcome)["warning"], "no checkpoint could be written: the disk is full");
  checkpoints.set_newest("kept/checkpoint-000002");
  checkpoints.set_step(7);
  EXPECT_EQ(Summary(Job(), outcome)["warning"],
            "the newest checkpoint is of step 7: the disk is full");
  v1::JobSpec replay = Job();
  replay.mutable_model()->set_type(v1::ModelSpec::REPLAY);
  EXPECT_TRUE(Summary(replay, outcome).contains("warning"));
  checkpoints.clear_error();
  EXPECT_FALSE(Summary(Job(), outcome).contains("warning"));
}

TEST(SummaryTest, WarnsOfDevicesThatRoundOtherwise) {
  JobOutcome outcome = Outcome();
  outcome.device_notes = {"one", "another"};
  EXPECT_EQ(Summary(Job(), outcome)["warning"], "one; another");
}

// Ends with the same answer for all of 4 classes.
JobOutcome FailedOutcome() {
  JobOutcome outcome = Outcome();
  for (v1::Progress& progress : *outcome.last_status.mutable_progress()) {
    progress.set_first_loss(1.5);
    progress.set_largest_loss(30);
    progress.set_steps_done(100);
    progress.set_loss(1.4);
  }
  outcome.result.set_test_loss(1.39);
  outcome.result.set_test_accuracy(0.25);
  outcome.result.set_test_samples(400);
  outcome.result.set_guess_loss(1.386);
  outcome.result.set_guess_accuracy(0.26);
  return outcome;
}

TEST(SummaryTest, TrainingThatFailedSaysSo) {
  EXPECT_EQ(Summary(Job(), FailedOutcome())["warning"],
            "training has failed: the test loss is 1.39, and one answer for all samples has "
            "1.386 (test accuracy 25.0 % and 26.0 %). Its updates were too large: try a smaller "
            "--learning_rate, such as 0.005; features that are very large (--feature_scale) do the "
            "same.");
}

TEST(SummaryTest, TheLossAtTheStartIsThatOfWorkersThatBeganThere) {
  JobOutcome outcome = FailedOutcome();
  outcome.last_status.mutable_progress(0)->clear_first_loss();  // in the place of another one
  outcome.last_status.add_replaced_workers()->set_first_loss(1.2);
  EXPECT_THAT(Summary(Job(), outcome)["warning"].get<std::string>(),
              testing::HasSubstr("the loss was 1.4 in the first steps and is 1.39 at the end"));
}

v1::JobSpec ProgramJob() {
  v1::JobSpec job = Job();
  job.mutable_model()->set_type(v1::ModelSpec::PROGRAM);
  return job;
}

TEST(SummaryTest, AProgramsFiguresAreThoseThatItHasTold) {
  const nlohmann::json told = Summary(ProgramJob(), Outcome());
  EXPECT_EQ(told["model"], "program");
  EXPECT_EQ(told["test_accuracy"], 0.875);
  EXPECT_EQ(told["test_loss"], 0.5);
  EXPECT_EQ(told["train_loss"], 0.5);
  EXPECT_FALSE(Summary(Job(), Outcome()).contains("model"));
}

TEST(SummaryTest, WhatAProgramHasNotToldHasNoKeyAndNoVerdict) {
  JobOutcome outcome = Outcome();
  outcome.result.set_has_no_accuracy(true);
  outcome.result.set_has_no_loss(true);
  for (v1::Progress& progress : *outcome.last_status.mutable_progress()) {
    progress.set_loss(std::numeric_limits<double>::quiet_NaN());
  }
  const nlohmann::json summary = Summary(ProgramJob(), outcome);
  for (const char* const key : {"test_accuracy", "test_loss", "train_loss", "warning"}) {
    EXPECT_FALSE(summary.contains(key)) << key;
  }
  EXPECT_EQ(summary["parameters_xxh3"], "0000000000000abc");
  outcome.result.set_has_no_loss(false);
  EXPECT_EQ(Summary(ProgramJob(), outcome)["test_loss"], 0.5);
}

TEST(SummaryTest, AModelOfClicksHasItsFigures) {
  for (const char* const key : {"test_auc", "best_auc", "nonzero_weights"}) {
    EXPECT_FALSE(Summary(Job(), Outcome()).contains(key)) << key;
  }
  JobOutcome outcome = Outcome();
  outcome.result.set_test_auc(0.75);
  outcome.result.set_best_auc(0.8);
  outcome.result.set_nonzero_weights(0.125);
  const nlohmann::json summary = Summary(Job(), outcome);
  EXPECT_EQ(summary["test_auc"], 0.75);
  EXPECT_EQ(summary["best_auc"], 0.8);
  EXPECT_EQ(summary["nonzero_weights"], 0.125);
}

TEST(SummaryTest, AProgramWithAnInfiniteLossIsWarnedOf) {
  JobOutcome outcome = Outcome();
  outcome.result.set_has_no_accuracy(true);
  outcome.result.set_test_loss(std::numeric_limits<double>::infinity());
  EXPECT_THAT(Summary(ProgramJob(), outcome)["warning"].get<std::string>(),
              ::testing::HasSubstr("is not finite"));
}

TEST(SummaryTest, AReplayHasLearntNothing) {
  v1::JobSpec job = Job();
  job.mutable_model()->set_type(v1::ModelSpec::REPLAY);
  const nlohmann::json summary = Summary(job, Outcome());
  EXPECT_FALSE(summary.contains("test_accuracy"));
  EXPECT_FALSE(Summary(job, FailedOutcome()).contains("warning"));
  EXPECT_FALSE(summary.contains("train_loss"));
  EXPECT_EQ(summary["steps"], 10);
}

TEST(SummaryTest, CountsWhatReplacedWorkersHaveDoneButNotTheLossOfOneThatHasNotComputed) {
  JobOutcome outcome = Outcome();
  outcome.workers_lost = 2;
  v1::Progress& replaced = *outcome.last_status.add_replaced_workers();
  replaced.set_loss(7);
  replaced.set_steps_done(4);
  replaced.set_samples(40);
  replaced.set_bytes_pushed(400);
  replaced.set_bytes_pulled(800);
  replaced.set_max_staleness_seen(5);
  replaced.set_mean_staleness_seen(3);
  outcome.last_status.mutable_progress(2)->set_samples(0);
  const nlohmann::json summary = Summary(Job(), outcome);
  EXPECT_EQ(summary["samples"], 100 + 100 + 40);
  EXPECT_EQ(summary["bytes_pushed"], 3400);
  EXPECT_EQ(summary["bytes_pulled"], 6800);
  EXPECT_EQ(summary["max_staleness_seen"], 5);
  EXPECT_EQ(summary["mean_staleness_seen"], (0.5 + 1.5 + 1 + 3) / 4);
  EXPECT_EQ(summary["train_loss"], 0.25);
  EXPECT_EQ(summary["workers_lost"], 2);
  EXPECT_EQ(summary["workers_replaced"], 1);
  EXPECT_FALSE(summary.contains("place_replacements"));
}

TEST(SummaryTest, HasWhoWasReplacedInAHeldPlace) {
  JobOutcome outcome = Outcome();
  v1::PlaceReplacement& replacement = *outcome.last_status.add_place_replacements();
  replacement.set_worker(1);
  replacement.set_step(7);
  replacement.set_seconds(0.5);
  replacement.set_text("worker 1 was lost");
  EXPECT_EQ(Summary(Job(), outcome)["place_replacements"],
            nlohmann::json::parse(
                R"([{"worker": 1, "step": 7, "seconds": 0.5, "text": "worker 1 was lost"}])"));
}

TEST(SummaryTest, WarnsOfOtherBitsIfTheJobHasFinished) {
  JobOutcome outcome = Outcome();
  EXPECT_FALSE(Summary(Job(), outcome).contains("warning"));
  outcome.has_other_bits = true;
  EXPECT_EQ(Summary(Job(), outcome)["warning"],
            "a worker was lost before its last step under bsp, so the bits are not those of an "
            "undisturbed job");
  outcome.status = absl::AbortedError("a server was lost");
  EXPECT_FALSE(Summary(Job(), outcome).contains("warning"));
}

TEST(SummaryTest, StalenessIsTheJobsForSspAndNullForAsync) {
  v1::JobSpec job = Job();
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  job.mutable_consistency()->set_staleness(4);
  EXPECT_EQ(Summary(job, Outcome())["staleness"], 4);
  EXPECT_EQ(Summary(job, Outcome())["consistency"], "ssp");
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  EXPECT_TRUE(Summary(job, Outcome())["staleness"].is_null());
}

TEST(SummaryTest, TellsEveryPeriodOfTheConsistency) {
  JobOutcome outcome = Outcome();
  v1::ConsistencyPeriod* ssp = outcome.last_status.mutable_view()->add_consistency();
  ssp->set_first_step(4);
  ssp->mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  ssp->mutable_consistency()->set_staleness(3);
  v1::TableStaleness* own = ssp->mutable_consistency()->add_table_staleness();
  own->set_table("w");
  own->set_staleness(1);
  v1::ConsistencyPeriod* async = outcome.last_status.mutable_view()->add_consistency();
  async->set_first_step(8);
  async->mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  const nlohmann::json summary = Summary(Job(), outcome);
  EXPECT_EQ(summary["consistency"], "bsp") << "the job's own";
  EXPECT_EQ(summary["consistency_periods"], nlohmann::json::parse(R"([
    {"from_step": 0, "consistency": "bsp", "staleness": 0},
    {"from_step": 4, "consistency": "ssp", "staleness": 3, "table_staleness": {"w": 1}},
    {"from_step": 8, "consistency": "async", "staleness": null}])"));
}

TEST(SummaryTest, TellsWhatTheLinksAreLike) {
  JobOutcome outcome = Outcome();
  EXPECT_FALSE(Summary(Job(), outcome).contains("links"));
  v1::LinkReport& links = *outcome.last_status.mutable_links();
  links.mutable_slowest()->set_bytes_per_second(1e8);
  links.mutable_slowest()->set_round_trip_seconds(0.001);
  links.mutable_slowest()->set_seconds(0.5);
  links.mutable_slowest()->set_encode_bytes_per_second(2e9);
  links.mutable_slowest()->set_decode_bytes_per_second(4e9);
  links.mutable_chosen()->set_slice_bytes(65536);
  links.set_text("fast");
  EXPECT_EQ(Summary(Job(), outcome)["links"], nlohmann::json::parse(R"({
    "bytes_per_second": 1e8, "round_trip_seconds": 0.001, "measured_seconds": 0.5, "text": "fast",
    "int8_encode_bytes_per_second": 2e9, "int8_decode_bytes_per_second": 4e9,
    "slice_bytes": 65536})"));
}

TEST(SummaryTest, TellsWhatTuningHasFound) {
  v1::JobSpec job = Job();
  JobOutcome outcome = Outcome();
  v1::TuningReport& tuning = *outcome.last_status.mutable_tuning();
  v1::TuningReport::Point& tried = *tuning.add_tried();
  tried.set_partition_bytes(1024);
  tried.set_credit_bytes(4096);
  tried.set_step_seconds(0.25);
  EXPECT_FALSE(Summary(job, outcome).contains("tuning"));
  job.mutable_scheduler()->set_tune(true);
  EXPECT_EQ(Summary(job, outcome)["tuning"], nlohmann::json::parse(R"({"tried": [
    {"partition_bytes": 1024, "credit_bytes": 4096, "step_seconds": 0.25}]})"));
  *tuning.mutable_chosen() = tried;
  tuning.set_reason("because");
  const nlohmann::json ended = Summary(job, outcome)["tuning"];
  EXPECT_EQ(ended["chosen"], ended["tried"][0]);
  EXPECT_EQ(ended["reason"], "because");
}

TEST(SummaryTest, SurvivesFiguresAndNamesThatJsonCannotHold) {
  v1::JobSpec job = Job();
  job.set_name("\xff");
  JobOutcome outcome = Outcome();
  outcome.result.set_test_loss(std::numeric_limits<double>::infinity());
  outcome.training_time = absl::ZeroDuration();
  const nlohmann::json summary = Summary(job, outcome);
  EXPECT_TRUE(summary["test_loss"].is_null());
  EXPECT_THAT(summary["warning"].get<std::string>(), testing::HasSubstr("is not finite"));
  EXPECT_EQ(summary["samples_per_s"], 0);
}

}  // namespace
}  // namespace capstan
