#include "server/service/shard_host_options.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(SchedulesOfViewTest, EachTableHasItsOwnStalenessInEachPeriod) {
  v1::JobView view;
  view.add_tables()->set_name("a");
  view.add_tables()->set_name("b");
  v1::ConsistencySpec& first = *view.add_consistency()->mutable_consistency();
  first.set_mode(v1::ConsistencySpec::SSP);
  first.set_staleness(1);
  v1::TableStaleness& own = *first.add_table_staleness();
  own.set_table("b");
  own.set_staleness(3);
  view.add_consistency()->set_first_step(10);
  view.mutable_consistency(1)->mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);

  const auto schedules = SchedulesOfView(view);
  ASSERT_TRUE(schedules.ok()) << schedules.status();
  ASSERT_EQ(schedules->size(), 2u);
  EXPECT_EQ((*schedules)[0]->Decide(Step(5), Step(4)), PullDecision::kAnswer);
  EXPECT_EQ((*schedules)[0]->Decide(Step(5), Step(3)), PullDecision::kWait);
  EXPECT_EQ((*schedules)[1]->Decide(Step(5), Step(2)), PullDecision::kAnswer);
  EXPECT_EQ((*schedules)[1]->Decide(Step(5), Step(1)), PullDecision::kWait);
  EXPECT_TRUE((*schedules)[0]->AppliesWholeStep(Step(10)));
  EXPECT_TRUE((*schedules)[1]->AppliesWholeStep(Step(10)));
}

TEST(SchedulesOfViewTest, AViewWithoutAModeIsRefused) {
  v1::JobView view;
  view.add_tables()->set_name("a");
  view.add_consistency()->mutable_consistency()->set_mode(v1::ConsistencySpec::MODE_UNSPECIFIED);
  EXPECT_TRUE(absl::IsInvalidArgument(SchedulesOfView(view).status()));
}

TEST(ShardHostOptionsTest, TablesHaveTheirOwnOptimizersAndSourcesOfInitialValues) {
  v1::GetJobReply job;
  job.mutable_job()->mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  v1::JobView view;
  view.add_consistency()->mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  for (const char* const name : {"a", "b"}) {
    v1::TableSpec& table = *view.add_tables();
    table.set_name(name);
    table.add_shape(3);
  }
  view.mutable_tables(1)->mutable_optimizer()->set_type(v1::OptimizerSpec::ADAM);
  view.mutable_tables(1)->set_initial_from_worker(true);

  const auto options = ShardHostOptions(job, ServerId(0), view);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->optimizer->state_count(), 0) << "SGD";
  EXPECT_EQ(options->tables[0].optimizer, nullptr);
  EXPECT_FALSE(options->tables[0].initial_from_worker);
  ASSERT_NE(options->tables[1].optimizer, nullptr);
  EXPECT_EQ(options->tables[1].optimizer->state_count(), 2) << "Adam";
  EXPECT_TRUE(options->tables[1].initial_from_worker);

  view.mutable_tables(1)->mutable_optimizer()->set_learning_rate(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(ShardHostOptions(job, ServerId(0), view).status()));
}

TEST(ShardHostOptionsTest, ChangesBeginInTheNextRound) {
  v1::GetJobReply job;
  v1::JobView view;
  view.add_tables()->add_shape(3);
  view.add_consistency()->mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  EXPECT_EQ(ShardHostOptions(job, ServerId(0), view)->steps_until_held_back, 2);
  view.mutable_local_steps()->set_sync_every(50);
  EXPECT_EQ(ShardHostOptions(job, ServerId(0), view)->steps_until_held_back, 0);
  view.add_copies()->set_server(1);
  EXPECT_EQ(ShardHostOptions(job, ServerId(0), view)->steps_until_held_back, 1);
}

}  // namespace
}  // namespace capstan
