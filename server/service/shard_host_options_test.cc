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

}  // namespace
}  // namespace capstan
