#include "server/coordinator/plans/consistency_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

v1::ConsistencySpec Ssp(int64_t staleness) {
  v1::ConsistencySpec consistency;
  consistency.set_mode(v1::ConsistencySpec::SSP);
  consistency.set_staleness(staleness);
  return consistency;
}

v1::ConsistencySpec WithTable(v1::ConsistencySpec consistency, const char* table,
                              int64_t staleness) {
  v1::TableStaleness& own = *consistency.add_table_staleness();
  own.set_table(table);
  own.set_staleness(staleness);
  return consistency;
}

v1::HeartbeatRequest Held(uint32_t server, uint64_t change, int64_t step) {
  v1::HeartbeatRequest heartbeat = HeartbeatOf({v1::HeartbeatRequest::SERVER, server});
  heartbeat.mutable_held_step()->set_consistency_change(change);
  heartbeat.mutable_held_step()->set_step(step);
  return heartbeat;
}

bool Settle(ConsistencyPlan& plan, uint32_t num_servers) {
  ExampleFacts example(num_servers);
  const bool has_settled = plan.Settle(example.facts, example.events);
  EXPECT_EQ(example.events.size(), has_settled ? 1u : 0u);
  return has_settled;
}

TableSpecs Tables() {
  TableSpecs tables;
  tables.Add()->set_name("w");
  tables.Add()->set_name("b");
  return tables;
}

v1::ConsistencySpec Staleness(int64_t staleness) {
  v1::ConsistencySpec change;
  change.set_staleness(staleness);
  return change;
}

v1::SetConsistencyRequest Request(const v1::ConsistencySpec& change) {
  v1::SetConsistencyRequest request;
  *request.mutable_change() = change;
  return request;
}

// What `now` becomes by the request.
absl::StatusOr<v1::ConsistencySpec> Changed(const v1::ConsistencySpec& now,
                                            const v1::SetConsistencyRequest& request) {
  ConsistencyPlan plan(now);
  if (const auto number = plan.Begin(request, Tables()); !number.ok()) return number.status();
  EXPECT_TRUE(plan.Report(Held(0, 1, 3)).ok());
  EXPECT_TRUE(Settle(plan, /*num_servers=*/1));
  return plan.latest().consistency();
}
absl::StatusOr<v1::ConsistencySpec> Changed(const v1::ConsistencySpec& now,
                                            const v1::ConsistencySpec& change) {
  return Changed(now, Request(change));
}

TEST(ConsistencyPlanTest, AChangeBeginsWhereTheFarthestServerHoldsBack) {
  ConsistencyPlan plan(Ssp(1));
  ASSERT_EQ(plan.Begin(Request(Staleness(4)), Tables()).value(), 1u);
  EXPECT_TRUE(plan.Report(Held(0, 1, 7)).ok());
  EXPECT_FALSE(Settle(plan, /*num_servers=*/2));
  EXPECT_EQ(plan.Find(1), nullptr);
  EXPECT_TRUE(plan.Report(Held(1, 1, 5)).ok());
  EXPECT_TRUE(Settle(plan, /*num_servers=*/2));
  ASSERT_NE(plan.Find(1), nullptr);
  EXPECT_EQ(plan.Find(1)->first_step(), 7);
  EXPECT_EQ(plan.Find(1)->consistency().staleness(), 4);
  EXPECT_FALSE(Settle(plan, /*num_servers=*/2)) << "it is settled";
}

TEST(ConsistencyPlanTest, ALaterChangeBeginsLaterAndIgnoresReportsOfTheEarlierOne) {
  ConsistencyPlan plan(Ssp(1));
  ASSERT_TRUE(plan.Begin(Request(Staleness(4)), Tables()).ok());
  EXPECT_TRUE(plan.Report(Held(0, 1, 7)).ok());
  ASSERT_TRUE(Settle(plan, 1));
  ASSERT_EQ(plan.Begin(Request(Staleness(5)), Tables()).value(), 2u);
  EXPECT_TRUE(plan.Report(Held(0, 1, 9)).ok());
  EXPECT_FALSE(Settle(plan, 1));
  EXPECT_TRUE(plan.Report(Held(0, 2, 6)).ok());
  EXPECT_TRUE(Settle(plan, 1));
  EXPECT_EQ(plan.Find(2)->first_step(), 8) << "after the one before";
}

TEST(ConsistencyPlanTest, ARequestThatComesTwiceIsOneChange) {
  ConsistencyPlan plan(Ssp(1));
  EXPECT_EQ(plan.Begin(Request(Staleness(1)), Tables()).value(), 0u) << "so it is from step 0 on";
  EXPECT_EQ(plan.Find(0)->first_step(), 0);
  EXPECT_EQ(plan.Begin(Request(Staleness(4)), Tables()).value(), 1u);
  EXPECT_EQ(plan.Begin(Request(Staleness(4)), Tables()).value(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(plan.Begin(Request(Staleness(5)), Tables()).status()));
  EXPECT_TRUE(plan.Report(Held(0, 1, 7)).ok());
  ASSERT_TRUE(Settle(plan, 1));
  EXPECT_EQ(plan.Begin(Request(Staleness(4)), Tables()).value(), 1u);
}

TEST(ConsistencyPlanTest, ATableWhoseOptimizerTheProgramRunsStaysUnderBsp) {
  v1::ConsistencySpec bsp;
  bsp.set_mode(v1::ConsistencySpec::BSP);
  TableSpecs tables = Tables();
  tables[1].set_replies_mean(true);
  tables[1].add_shape(3);
  for (const auto mode : {v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
    ConsistencyPlan plan(bsp);
    v1::ConsistencySpec change;
    change.set_mode(mode);
    const absl::Status refused = plan.Begin(Request(change), tables).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_NE(refused.message().find("table b, whose optimizer the program runs: expected "
                                     "--consistency=bsp"),
              absl::string_view::npos)
        << refused;
    EXPECT_EQ(plan.Begin(Request(bsp), tables).value(), 0u) << "it is as it was";
    EXPECT_EQ(plan.Begin(Request(change), Tables()).value(), 1u) << "the servers run all";
  }
}

TEST(ConsistencyPlanTest, AViewTellsThePeriodsAndWhatIsPending) {
  ConsistencyPlan plan(Ssp(1));
  v1::JobView view;
  ASSERT_TRUE(plan.Begin(Request(Staleness(4)), Tables()).ok());
  plan.WriteToView(view);
  EXPECT_EQ(view.consistency_size(), 1);
  EXPECT_EQ(view.consistency_change(), 1u);
  EXPECT_TRUE(plan.Report(Held(0, 1, 7)).ok());
  ASSERT_TRUE(Settle(plan, 1));
  plan.WriteToView(view);
  ASSERT_EQ(view.consistency_size(), 2);
  EXPECT_EQ(view.consistency(1).first_step(), 7);
  EXPECT_EQ(view.consistency_change(), 0u);
}

TEST(ConsistencyPlanTest, AStepThatNoJobGetsToIsRefused) {
  ConsistencyPlan plan(Ssp(1));
  EXPECT_TRUE(plan.Report(Held(0, 1, INT64_MAX)).ok()) << "nothing is pending";
  ASSERT_TRUE(plan.Begin(Request(Staleness(4)), Tables()).ok());
  for (const int64_t step : {int64_t{-1}, (int64_t{1} << 53) + 1, INT64_MAX}) {
    const absl::Status status = plan.Report(Held(0, 1, step));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find("held_step of server-0: expected a step from 0 to"),
              absl::string_view::npos)
        << status;
    EXPECT_FALSE(Settle(plan, 1));
  }
  EXPECT_TRUE(plan.Report(Held(0, 1, int64_t{1} << 53)).ok());
  EXPECT_TRUE(Settle(plan, 1));
  ASSERT_TRUE(plan.Begin(Request(Staleness(5)), Tables()).ok());
  EXPECT_TRUE(plan.Report(Held(0, 2, 7)).ok());
  EXPECT_TRUE(Settle(plan, 1));
  EXPECT_EQ(plan.Find(2)->first_step(), (int64_t{1} << 53) + 1) << "after the one before";
}

TEST(ConsistencyPlanTest, OnlyWhatIsSetChanges) {
  const auto changed = Changed(WithTable(Ssp(1), "b", 0), Staleness(5));
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->mode(), v1::ConsistencySpec::SSP);
  EXPECT_EQ(changed->staleness(), 5);
  ASSERT_EQ(changed->table_staleness_size(), 1);
  EXPECT_EQ(changed->table_staleness(0).table(), "b");
}

TEST(ConsistencyPlanTest, AListReplacesTheList) {
  const auto changed = Changed(WithTable(Ssp(1), "b", 0), WithTable(v1::ConsistencySpec(), "w", 3));
  ASSERT_TRUE(changed.ok()) << changed.status();
  ASSERT_EQ(changed->table_staleness_size(), 1);
  EXPECT_EQ(changed->table_staleness(0).table(), "w");
}

TEST(ConsistencyPlanTest, TheStalenessOfTablesIsTakenBackOnlyWhenAsked) {
  const v1::ConsistencySpec now = WithTable(Ssp(1), "b", 0);
  v1::SetConsistencyRequest request;
  request.set_clear_table_staleness(true);
  const auto alone = Changed(now, request);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->staleness(), 1);
  EXPECT_TRUE(alone->table_staleness().empty());
  request.mutable_change()->set_staleness(4);
  const auto with_staleness = Changed(now, request);
  ASSERT_TRUE(with_staleness.ok()) << with_staleness.status();
  EXPECT_EQ(with_staleness->staleness(), 4);
  EXPECT_TRUE(with_staleness->table_staleness().empty());
  *request.mutable_change() = WithTable(v1::ConsistencySpec(), "w", 3);
  const auto with_list = Changed(now, request);
  ASSERT_TRUE(with_list.ok()) << with_list.status();
  ASSERT_EQ(with_list->table_staleness_size(), 1);
  EXPECT_EQ(with_list->table_staleness(0).table(), "w");
}

TEST(ConsistencyPlanTest, AnotherModeTakesTheStalenessAway) {
  v1::ConsistencySpec async;
  async.set_mode(v1::ConsistencySpec::ASYNC);
  const auto changed = Changed(WithTable(Ssp(1), "b", 0), async);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_FALSE(changed->has_staleness());
  EXPECT_TRUE(changed->table_staleness().empty());
}

TEST(ConsistencyPlanTest, RefusesWhatDoesNotFit) {
  v1::ConsistencySpec finite = Ssp(1);
  finite.set_check_finite(false);
  v1::ConsistencySpec bsp_with_staleness = Staleness(2);
  bsp_with_staleness.set_mode(v1::ConsistencySpec::BSP);
  const struct {
    v1::ConsistencySpec now, change;
    const char* message;
  } cases[] = {
      {v1::ConsistencySpec(), Staleness(5),
       "for consistency ssp only, but from step 0 on bsp counts; add --consistency=ssp"},
      {v1::ConsistencySpec(), WithTable(v1::ConsistencySpec(), "w", 3), "add --consistency=ssp"},
      {Ssp(1), bsp_with_staleness, "0, because it is for consistency ssp only"},
      {Ssp(1), Ssp(-1), "expected 0 or more"},
      {Ssp(1), v1::ConsistencySpec(), "got nothing"},
      {Ssp(1), finite, "check_finite and update_scale cannot be changed"},
      {Ssp(1), WithTable(v1::ConsistencySpec(), "x", 1), "tables of the model (w, b), got \"x\""},
  };
  for (const auto& refused : cases) {
    const absl::Status status = Changed(refused.now, refused.change).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << refused.message;
    EXPECT_NE(status.message().find(refused.message), absl::string_view::npos) << status;
  }
}

// Of a job under SSP(2) whose mode was changed at step 10. No slice has step 30.
v1::CheckpointManifest Restored() {
  v1::CheckpointManifest manifest;
  manifest.set_step(20);
  manifest.set_end_step(30);
  *manifest.mutable_job()->mutable_consistency() = Ssp(2);
  *manifest.add_consistency()->mutable_consistency() = Ssp(2);
  manifest.add_consistency()->set_first_step(10);
  manifest.mutable_consistency(1)->mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  return manifest;
}

TEST(ConsistencyPlanTest, ARestoredJobKeepsItsPeriodsIfItsOwnConsistencyIsTheSame) {
  const ConsistencyPlan plan(Ssp(2), Restored());
  EXPECT_EQ(plan.latest().first_step(), 10);
  EXPECT_EQ(plan.latest().consistency().mode(), v1::ConsistencySpec::BSP);
}

TEST(ConsistencyPlanTest, AnotherConsistencyOfARestoredJobBeginsAfterAllThatWasDone) {
  const ConsistencyPlan plan(Ssp(3), Restored());
  v1::JobView view;
  plan.WriteToView(view);
  ASSERT_EQ(view.consistency_size(), 3);
  EXPECT_EQ(view.consistency(2).first_step(), 30);
  EXPECT_EQ(view.consistency(2).consistency().staleness(), 3);
}

TEST(ConsistencyPlanTest, AnotherConsistencyReplacesAPeriodThatHasNotBegun) {
  v1::CheckpointManifest restored = Restored();
  restored.mutable_consistency(1)->set_first_step(35);
  EXPECT_EQ(ConsistencyPlan(Ssp(3), restored).latest().first_step(), 30);
}

TEST(ConsistencyPlanTest, AChangeOfARestoredJobHasItsOwnNumber) {
  ConsistencyPlan plan(Ssp(2), Restored());
  ASSERT_EQ(plan.Begin(Request(Ssp(5)), Tables()).value(), 2u);
  ASSERT_TRUE(plan.Report(Held(0, 2, 47)).ok());
  ASSERT_TRUE(Settle(plan, /*num_servers=*/1));
  EXPECT_EQ(plan.latest().first_step(), 47);
}

TEST(ConsistencyPlanTest, AfterTheLossOfAServerAllLiveOnesHoldBackAnew) {
  ExampleFacts example(/*num_servers=*/3);
  ConsistencyPlan plan(Ssp(1));
  ASSERT_TRUE(plan.Begin(Request(Staleness(4)), Tables()).ok());
  for (const uint32_t server : {0, 1}) EXPECT_TRUE(plan.Report(Held(server, 1, 70)).ok());
  example.Server(0).end = "it is gone";
  plan.OnServerLost({0, /*moves_shards=*/true}, example.facts);
  EXPECT_TRUE(plan.is_pending());
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  EXPECT_TRUE(plan.Report(Held(1, 1, 7)).ok());
  EXPECT_FALSE(plan.Settle(example.facts, example.events)) << "server 2 is live, too";
  EXPECT_TRUE(plan.Report(Held(2, 1, 8)).ok());
  EXPECT_TRUE(plan.Settle(example.facts, example.events));
  EXPECT_EQ(plan.Find(1)->first_step(), 8);
}

}  // namespace
}  // namespace capstan
