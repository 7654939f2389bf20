#include "server/coordinator/plans/output_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;

// Keeps what it is told.
class NotedOutput : public ModelOutput {
 public:
  uint64_t token() const override { return 1; }
  absl::Status Begin(const Tables& tables, const std::vector<TableOfRows>&,
                     const Tables& state) override {
    tables_begun = tables.size();
    for (const v1::TableSpec& tensor : state) state_begun.push_back(tensor.name());
    return absl::OkStatus();
  }
  absl::Status Publish(const Metadata& metadata, std::optional<uint64_t> parameters_xxh3) override {
    published = metadata;
    hash = parameters_xxh3;
    return absl::OkStatus();
  }

  int tables_begun = 0;
  std::vector<std::string> state_begun;
  Metadata published;
  std::optional<uint64_t> hash;
};

v1::JobSpec JobWithOutput() {
  v1::JobSpec job;
  job.set_output("m");
  return job;
}

// What the file has of this result, at step 9 of the job.
NotedOutput Published(const v1::JobSpec& job, const v1::ReportResultRequest& result) {
  OutputPlan plan(job);
  ExampleFacts example(/*num_servers=*/1, /*num_workers=*/1, job);
  example.facts.view.set_phase(v1::SAVING);
  EXPECT_TRUE(example.facts.training.ReportSteps(0, 9).ok());
  example.facts.result = result;
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  NotedOutput output;
  EXPECT_TRUE(plan.TakeWork()(output).ok());
  return output;
}

TEST(OutputPlanTest, WithoutOutputNothingIsToBeDone) {
  OutputPlan plan{v1::JobSpec()};
  EXPECT_FALSE(plan.is_wanted());
  EXPECT_TRUE(plan.is_made());
  ExampleFacts example;
  for (const v1::Phase phase : {v1::REGISTERING, v1::SAVING}) {
    example.facts.view.set_phase(phase);
    EXPECT_FALSE(plan.Settle(example.facts, example.events));
    EXPECT_EQ(plan.TakeWork(), nullptr);
  }
}

TEST(OutputPlanTest, TheFileHasRoomForTheOptimizersStateIfTheJobWantsIt) {
  v1::JobSpec job = JobWithOutput();
  for (const bool is_wanted : {false, true}) {
    job.set_output_optimizer_state(is_wanted);
    OutputPlan plan(job);
    ExampleFacts example(/*num_servers=*/1, /*num_workers=*/1, job);
    example.facts.view.set_phase(v1::REGISTERING);
    example.TakeTables(std::vector<uint64_t>{64});
    plan.Settle(example.facts, example.events);
    NotedOutput output;
    ASSERT_TRUE(plan.TakeWork()(output).ok());
    EXPECT_EQ(output.state_begun.size(), is_wanted ? 2u : 0u);
  }
}

TEST(OutputPlanTest, TheFileIsAskedForOnceAndMadeWhenTheWorkIsDone) {
  OutputPlan plan(JobWithOutput());
  ExampleFacts example;
  example.facts.view.set_phase(v1::REGISTERING);
  example.TakeTables(std::vector<uint64_t>{64});
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  OutputPlan::Work work = plan.TakeWork();
  ASSERT_NE(work, nullptr);
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  EXPECT_EQ(plan.TakeWork(), nullptr) << "it has been asked for";
  NotedOutput output;
  EXPECT_TRUE(work(output).ok());
  EXPECT_EQ(output.tables_begun, 1);
  EXPECT_FALSE(plan.is_made());
  plan.EndWork();
  EXPECT_TRUE(plan.is_made());
}

TEST(OutputPlanTest, NobodyAsksForTheFileBeforeAllMembersHaveRegistered) {
  OutputPlan plan(JobWithOutput());
  FakeClock clock;
  JobFacts facts(JobWithOutput(), clock);
  facts.view.set_phase(v1::REGISTERING);
  JobEvents events;
  EXPECT_FALSE(plan.Settle(facts, events));
  EXPECT_EQ(plan.TakeWork(), nullptr);
}

TEST(OutputPlanTest, TheFileGetsItsNameOnceWhenEveryServerHasWritten) {
  OutputPlan plan(JobWithOutput());
  ExampleFacts example(/*num_servers=*/2);
  example.facts.view.set_phase(v1::SAVING);
  example.facts.phase_version = 7;
  example.facts.result.emplace();
  example.Server(0).view_version = 7;
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  EXPECT_EQ(plan.TakeWork(), nullptr) << "server 1 has not written";
  example.Server(1).view_version = 7;
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  EXPECT_NE(plan.TakeWork(), nullptr);
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  EXPECT_EQ(plan.TakeWork(), nullptr) << "once";
}

TEST(OutputPlanTest, MetadataHaveTheResultWithAllItsDigitsAndAReplayHasNone) {
  v1::ReportResultRequest result;
  result.set_test_accuracy(1.0 / 3);
  result.set_test_loss(0.1);
  result.set_parameters_xxh3(0xabc);
  for (const bool is_replay : {false, true}) {
    v1::JobSpec job = JobWithOutput();
    if (is_replay) job.mutable_model()->set_type(v1::ModelSpec::REPLAY);
    NotedOutput output = Published(job, result);
    EXPECT_EQ(output.hash, 0xabc);
    EXPECT_EQ(output.published["step"], "9");
    if (is_replay) {
      EXPECT_THAT(output.published, Not(Contains(Key("test_accuracy"))));
    } else {
      EXPECT_EQ(std::stod(output.published["test_accuracy"]), 1.0 / 3);
      EXPECT_EQ(output.published["test_loss"], "0.1");
    }
  }
}

TEST(OutputPlanTest, AHashThatNoProcessOfTheEvaluatorKnowsIsNotCompared) {
  EXPECT_EQ(Published(JobWithOutput(), v1::ReportResultRequest()).hash, std::nullopt);
}

TEST(OutputPlanTest, MetadataLackWhatAProgramHasNotTold) {
  v1::JobSpec job = JobWithOutput();
  job.mutable_model()->set_type(v1::ModelSpec::PROGRAM);
  v1::ReportResultRequest result;
  result.set_has_no_accuracy(true);
  result.set_test_loss(0.1);
  NotedOutput output = Published(job, result);
  EXPECT_THAT(output.published, Not(Contains(Key("test_accuracy"))));
  EXPECT_EQ(output.published["test_loss"], "0.1");
}

TEST(OutputPlanTest, ServersWriteAgainAfterAChangeOfThePlacement) {
  OutputPlan plan(JobWithOutput());
  ExampleFacts example(/*num_servers=*/2);
  example.facts.view.set_phase(v1::SAVING);
  example.facts.phase_version = 7;
  example.facts.placement_version = 9;
  example.facts.result.emplace();
  example.Server(0).view_version = 8;
  example.Server(1).end = "it is gone";
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  EXPECT_EQ(plan.TakeWork(), nullptr);
  EXPECT_FALSE(plan.is_publishing());
  example.Server(0).view_version = 9;
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  EXPECT_NE(plan.TakeWork(), nullptr);
  EXPECT_TRUE(plan.is_publishing());
}

}  // namespace
}  // namespace capstan
