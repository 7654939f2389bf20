// Cuts of shards for checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/exchange/payload_floats.h"
#include "common/exchange/request_parts.h"
#include "server/shard/cuts.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

using ::testing::Each;

// The steps that the slice has of workers 0, 1, ...
std::vector<int64_t> Completed(const SliceSnapshot& slice) {
  std::vector<int64_t> completed;
  for (const StepVector::Entry& worker : slice.workers)
    completed.push_back(worker.completed.value());
  return completed;
}

using Period = ConsistencyPeriod;

// 2 workers.
std::unique_ptr<ShardHost> HostWith(std::vector<Period> periods) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.schedules = {Schedule(std::move(periods))};
  auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0, 1}));
  return host;
}

TEST(ShardHostCheckpointTest, UnderBspTheCutHasAllOfTheStepsBeforeAndNothingElse) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  Cuts cuts;
  ASSERT_EQ(host->HoldBack(), Step(3));
  host->CutAt(Step(3), cuts.Adder());
  for (int64_t step = 0; step < 2; ++step) {
    Push(*host, 0, step, 1);
    Push(*host, 1, step, 3);
  }
  Push(*host, 0, 2, 10);
  Push(*host, 0, 3, 100);
  EXPECT_FALSE(cuts.first().has_value()) << "worker 1 has not pushed step 2";
  Push(*host, 1, 2, 20);
  Push(*host, 1, 3, 200);
  Push(*host, 1, 4, 1000);
  const auto cut = cuts.first();
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->version, 3u);
  EXPECT_EQ(cut->min_step, Step(3));
  EXPECT_EQ(cut->largest_step, Step(3));
  EXPECT_THAT(Completed(*cut), testing::ElementsAre(3, 3)) << "the push of step 3 was there early";
  EXPECT_TRUE(cut->kept.empty());
  EXPECT_THAT(Floats(cut->values), Each(-2.0f - 2.0f - 15.0f));
  EXPECT_EQ(Send(*host, Request(0, std::nullopt, Step(4)))->first_value(), -19.0f - 150.0f)
      << "the training goes on";
}

TEST(ShardHostCheckpointTest, AStepWithoutAGradientIsInTheCutThoughItMadeNoVersion) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  Cuts cuts;
  host->CutAt(Step(3), cuts.Adder());
  for (int64_t step = 0; step < 3; ++step) {
    for (const int worker : {0, 1}) {
      ExchangeRequest request = Request(worker, Step(step), std::nullopt, 3);
      if (step > 0) DenseStepOf(request).push->gradient.reset();
      ASSERT_TRUE(Send(*host, std::move(request))->reply.status.ok());
    }
  }
  const auto cut = cuts.first();
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->version, 1u);
  EXPECT_EQ(cut->min_step, Step(3));
  EXPECT_THAT(Completed(*cut), testing::ElementsAre(3, 3));
  EXPECT_THAT(Floats(cut->values), Each(-3.0f));
}

TEST(ShardHostCheckpointTest, ADeathThatCompletesTwoStepsAtOnceIsCutBetweenThem) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  Cuts cuts;
  host->CutAt(Step(3), cuts.Adder());
  for (int64_t step = 0; step < 2; ++step) {
    Push(*host, 0, step, 1);
    Push(*host, 1, step, 3);
  }
  Push(*host, 0, 2, 10);
  Push(*host, 0, 3, 100);
  EXPECT_FALSE(cuts.first().has_value());
  host->SetLiveWorkers(Workers({0}));
  const auto cut = cuts.first();
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->version, 3u);
  EXPECT_THAT(Floats(cut->values), Each(-4.0f - 10.0f));
  EXPECT_THAT(Completed(*cut), testing::ElementsAre(3, 2));
  EXPECT_EQ(Send(*host, Request(0, std::nullopt, Step(4)))->first_value(), -114.0f);
}

TEST(ShardHostCheckpointTest, UnderSspTheCutIsTheSliceAsItIsWithItsStepVector) {
  const auto host = MakeHost(ConsistencyMode::kSsp, /*staleness=*/4, /*num_workers=*/2);
  for (int64_t step = 0; step < 3; ++step) Push(*host, 0, step, 1);
  Push(*host, 1, 0, 10);
  Cuts cuts;
  host->CutAt(host->HoldBack(), cuts.Adder());
  ASSERT_EQ(cuts.shards().size(), 2u) << "every shard, at once";
  EXPECT_NE(cuts.shards()[0].shard, cuts.shards()[1].shard);
  EXPECT_EQ(cuts.shards()[0].workers.size(), 2u);
  const auto cut = cuts.first();
  Push(*host, 1, 1, 100);
  EXPECT_EQ(cut->version, 4u);
  EXPECT_THAT(Completed(*cut), testing::ElementsAre(3, 1));
  EXPECT_EQ(cut->min_step, Step(1));
  EXPECT_THAT(Floats(cut->values), Each(-13.0f)) << "a later push does not change the cut";
}

TEST(ShardHostCheckpointTest, ACutAfterBspWaitsForItsLastStepAndTakesWhatWaitedForIt) {
  const auto host =
      HostWith({{Step(0), ConsistencyMode::kBsp}, {Step(2), ConsistencyMode::kAsync}});
  Push(*host, 0, 0, 1);
  Push(*host, 1, 0, 1);
  Push(*host, 0, 1, 1);
  Push(*host, 0, 2, 7);  // It waits for step 1 of worker 1.
  Cuts cuts;
  host->CutAt(Step(5), cuts.Adder());
  EXPECT_FALSE(cuts.first().has_value());
  Push(*host, 1, 1, 1);
  const auto cut = cuts.first();
  ASSERT_TRUE(cut.has_value());
  EXPECT_THAT(Completed(*cut), testing::ElementsAre(3, 2));
  EXPECT_TRUE(cut->kept.empty());
  EXPECT_THAT(Floats(cut->values), Each(-9.0f));
}

TEST(ShardHostCheckpointTest, ACutAtTheFirstStepsOfBspWaitsForThemOnly) {
  const std::vector<Period> periods = {{Step(0), ConsistencyMode::kAsync},
                                       {Step(2), ConsistencyMode::kBsp}};
  const auto at_once = HostWith(periods);
  Push(*at_once, 0, 0, 1);
  Cuts before;
  at_once->CutAt(Step(2), before.Adder());
  ASSERT_TRUE(before.first().has_value()) << "step 1 is applied push by push";
  EXPECT_THAT(Completed(*before.first()), testing::ElementsAre(1, 0));

  const auto exact = HostWith(periods);
  Cuts within;
  exact->CutAt(Step(3), within.Adder());
  for (int64_t step = 0; step < 4; ++step) Push(*exact, 0, step, 1);
  for (int64_t step = 0; step < 2; ++step) Push(*exact, 1, step, 1);
  EXPECT_FALSE(within.first().has_value());
  Push(*exact, 1, 2, 1);
  ASSERT_TRUE(within.first().has_value());
  EXPECT_THAT(Completed(*within.first()), testing::ElementsAre(3, 3));
  EXPECT_THAT(Floats(within.first()->values), Each(-4.0f - 1.0f));
}

TEST(ShardHostCheckpointTest, ACutThatWaitsFollowsAChangeOfTheConsistency) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  Cuts cuts;
  host->CutAt(Step(1000), cuts.Adder());
  const Step held_from = host->HoldBack();
  ASSERT_EQ(held_from, Step(3));
  host->SetSchedules(
      {Schedule({{Step(0), ConsistencyMode::kBsp}, {held_from, ConsistencyMode::kAsync}})});
  for (int64_t step = 0; step < 3; ++step) {
    EXPECT_FALSE(cuts.first().has_value());
    for (const int worker : {0, 1}) Push(*host, worker, step, 1);
  }
  EXPECT_TRUE(cuts.first().has_value()) << "all whole steps are done";
}

TEST(ShardHostCheckpointTest, TheCutEndsTheHoldingBack) {
  const auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/1);
  const Step held_from = host->HoldBack();
  for (int64_t step = 0; step + 1 < held_from.value(); ++step) {
    EXPECT_EQ(PushPull(*host, 0, step, 1)->replies, 1);
  }
  const auto parked = PushPull(*host, 0, held_from.value() - 1, 1);
  EXPECT_EQ(parked->replies, 0) << "the pull is held back";
  const auto refused = Send(*host, Request(0, held_from, std::nullopt, 1));
  EXPECT_TRUE(absl::IsUnavailable(refused->reply.status)) << refused->reply.status;
  Cuts cuts;
  host->CutAt(held_from, cuts.Adder());
  EXPECT_EQ(parked->replies, 1);
  EXPECT_EQ(PushPull(*host, 0, held_from.value(), 1)->replies, 1);
  EXPECT_THAT(Completed(*cuts.first()), testing::ElementsAre(held_from.value()));
}

TEST(ShardHostCheckpointTest, ANewerCutTakesThePlaceOfOneThatWaits) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/1);
  Cuts older, newer;
  host->CutAt(Step(9), older.Adder());
  host->CutAt(Step(3), newer.Adder());
  for (int64_t step = 0; step < 12; ++step) Push(*host, 0, step, 1);
  EXPECT_TRUE(older.shards().empty());
  ASSERT_TRUE(newer.first().has_value());
  EXPECT_EQ(newer.first()->version, 3u);
}

TEST(ShardHostCheckpointTest, AShardIsCutWhenAllItsSlicesAre) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.shard_count = 1;
  options.shards = {ShardId(0)};
  const auto host = ShardHost::Create(std::move(options)).value();
  EXPECT_EQ(host->filled_shards(), 1u);
  host->SetLiveWorkers(Workers({0}));
  Cuts cuts;
  host->CutAt(Step(1), cuts.Adder());
  for (int64_t step = 0; step < 3; ++step) Push(*host, 0, step, 1);
  EXPECT_TRUE(cuts.shards().empty());
  ExchangeRequest second = Request(0, Step(0), std::nullopt, 1);
  second.slice.slice = SliceIndex(1);
  const auto gradient = std::make_shared<std::vector<float>>(4, 2.0f);
  DenseStepOf(second).push->gradient = {Payload(absl::MakeConstSpan(*gradient), gradient)};
  Send(*host, std::move(second));
  ASSERT_EQ(cuts.shards().size(), 1u);
  const std::vector<SliceSnapshot> slices = cuts.shards()[0].slices;
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0].version, 1u) << "each at the same step, whatever came since";
  EXPECT_EQ(slices[1].version, 1u);
  EXPECT_THAT(Floats(slices[0].values), Each(-1.0f));
  EXPECT_THAT(Floats(slices[1].values), Each(-2.0f));
}

TEST(ShardHostCheckpointTest, AHostMayEndBeforeACutIsDone) {
  Cuts cuts;
  {
    const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
    host->CutAt(Step(5), cuts.Adder());
    const auto parked = PushPull(*host, 0, 0, 1);
  }
  EXPECT_TRUE(cuts.shards().empty());
}

// Each push adds 1 to the version and takes 1 from every value.
TEST(ShardHostCheckpointTest, CutsWhileOthersPushAreOfOneMoment) {
  const auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/2);
  std::vector<std::thread> workers;
  for (const int worker : {0, 1}) {
    workers.emplace_back([&host, worker] {
      for (int64_t step = 0; step < 300; ++step) {
        // Held back now and then.
        while (Send(*host, Request(worker, Step(step), std::nullopt, 1))->reply.status.ok() ==
               false) {
          std::this_thread::yield();
        }
      }
    });
  }
  Cuts cuts;
  for (int i = 0; i < 50; ++i) host->CutAt(host->HoldBack(), cuts.Adder());
  for (std::thread& worker : workers) worker.join();
  const std::vector<ShardSnapshot> shards = cuts.shards();
  EXPECT_EQ(shards.size(), 100u);
  for (const ShardSnapshot& shard : shards) {
    for (const SliceSnapshot& slice : shard.slices) {
      const std::vector<int64_t> completed = Completed(slice);
      EXPECT_EQ(slice.version, static_cast<uint64_t>(completed[0] + completed[1]));
      EXPECT_THAT(Floats(slice.values), Each(-static_cast<float>(slice.version)));
    }
  }
}

// 2 workers, which do not go on until the change is settled.
std::unique_ptr<ShardHost> HostOfRounds() {
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.steps_until_held_back = 0;
  auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0, 1}));
  return host;
}

TEST(ShardHostCheckpointTest, WithoutAStepUntilItIsHeldBackTheCutIsAtTheNextStep) {
  const auto host = HostOfRounds();
  PushPull(*host, 0, 0, 1);
  PushPull(*host, 1, 0, 3);
  Cuts cuts;
  ASSERT_EQ(host->HoldBack(), Step(2)) << "step 1 has been pulled";
  const auto parked = PushPull(*host, 0, 1, 10);
  EXPECT_EQ(PushPull(*host, 1, 1, 30)->replies, 0);
  EXPECT_EQ(parked->replies, 0) << "the change is being settled";
  host->CutAt(Step(2), cuts.Adder());
  ASSERT_TRUE(cuts.first().has_value());
  EXPECT_THAT(Completed(*cuts.first()), Each(2));
  EXPECT_EQ(parked->replies, 1);
  EXPECT_EQ(PushPull(*host, 0, 2, 1)->replies, 0) << "the next step is as any other";
  EXPECT_EQ(PushPull(*host, 1, 2, 1)->replies, 1);
}

TEST(ShardHostCheckpointTest, WithinAStepSlicesWithItsPushHoldBackOneLater) {
  const auto host = HostOfRounds();
  PushPull(*host, 0, 0, 1);
  EXPECT_EQ(host->HoldBack(), Step(2)) << "step 1 has been asked for";
  EXPECT_EQ(PushPull(*host, 1, 0, 1)->replies, 1) << "step 0 goes on";
}

}  // namespace
}  // namespace capstan
