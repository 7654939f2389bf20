#include "server/coordinator/output_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;

// Keeps what it is told.
class NotedOutput : public ModelOutput {
 public:
  uint64_t token() const override { return 1; }
  absl::Status Begin(const Tables& tables, const std::vector<TableOfRows>&) override {
    tables_begun = tables.size();
    return absl::OkStatus();
  }
  absl::Status Publish(const Metadata& metadata, uint64_t parameters_xxh3) override {
    published = metadata;
    hash = parameters_xxh3;
    return absl::OkStatus();
  }

  int tables_begun = 0;
  Metadata published;
  uint64_t hash = 0;
};

v1::JobSpec JobWithOutput() {
  v1::JobSpec job;
  job.set_output("m");
  return job;
}

TEST(OutputPlanTest, WithoutOutputNothingIsToBeDone) {
  OutputPlan plan{v1::JobSpec()};
  EXPECT_FALSE(plan.is_wanted());
  EXPECT_TRUE(plan.Make({}));
  EXPECT_EQ(plan.TakeWork(), nullptr);
}

TEST(OutputPlanTest, TheFileIsAskedForOnceAndMadeWhenTheWorkIsDone) {
  OutputPlan plan(JobWithOutput());
  ModelOutput::Tables tables;
  tables.Add();
  EXPECT_FALSE(plan.Make(tables));
  OutputPlan::Work work = plan.TakeWork();
  EXPECT_FALSE(plan.Make(tables));
  EXPECT_EQ(plan.TakeWork(), nullptr) << "it has been asked for";
  NotedOutput output;
  EXPECT_TRUE(work(output).ok());
  EXPECT_EQ(output.tables_begun, 1);
  EXPECT_FALSE(plan.Make(tables));
  plan.EndWork();
  EXPECT_TRUE(plan.Make(tables));
}

TEST(OutputPlanTest, MetadataHaveTheResultWithAllItsDigitsAndAReplayHasNone) {
  v1::ReportResultRequest result;
  result.set_test_accuracy(1.0 / 3);
  result.set_test_loss(0.1);
  result.set_parameters_xxh3(0xabc);
  for (const bool is_replay : {false, true}) {
    v1::JobSpec job = JobWithOutput();
    if (is_replay) job.mutable_model()->set_type(v1::ModelSpec::REPLAY);
    OutputPlan plan(job);
    plan.Publish(job, /*step=*/9, result);
    NotedOutput output;
    EXPECT_TRUE(plan.TakeWork()(output).ok());
    EXPECT_EQ(output.hash, 0xabc);
    EXPECT_EQ(output.published["step"], "9");
    EXPECT_EQ(output.published["parameters_xxh3"], "0000000000000abc");
    if (is_replay) {
      EXPECT_THAT(output.published, Not(Contains(Key("test_accuracy"))));
    } else {
      EXPECT_EQ(std::stod(output.published["test_accuracy"]), 1.0 / 3);
      EXPECT_EQ(output.published["test_loss"], "0.1");
    }
  }
}

TEST(OutputPlanTest, MetadataLackWhatAProgramHasNotTold) {
  v1::JobSpec job = JobWithOutput();
  job.mutable_model()->set_type(v1::ModelSpec::PROGRAM);
  v1::ReportResultRequest result;
  result.set_has_no_accuracy(true);
  result.set_test_loss(0.1);
  OutputPlan plan(job);
  plan.Publish(job, /*step=*/9, result);
  NotedOutput output;
  EXPECT_TRUE(plan.TakeWork()(output).ok());
  EXPECT_THAT(output.published, Not(Contains(Key("test_accuracy"))));
  EXPECT_EQ(output.published["test_loss"], "0.1");
}

}  // namespace
}  // namespace capstan
