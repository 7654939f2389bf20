// Cuts of shards for checkpoints, and hosts that go on from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "server/optimizer/optimizer.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// The exchanges of one_table_host.h are of this slice.
const SliceKey kFirst{TableId(0), SliceIndex(0)};

std::vector<float> Floats(const Payload& payload) {
  std::vector<float> values(payload.size_bytes() / sizeof(float));
  payload.CopyTo(absl::MakeSpan(values));
  return values;
}

// What CutAt has given so far. Thread-safe.
class Cuts {
 public:
  std::function<void(ShardSnapshot)> Adder() {
    return [this](ShardSnapshot snapshot) {
      MutexLock lock(&mu_);
      shards_.push_back(std::move(snapshot));
    };
  }
  std::vector<ShardSnapshot> shards() {
    MutexLock lock(&mu_);
    return shards_;
  }
  // The first slice in the cut of its shard; nothing: it has not been cut.
  std::optional<SliceSnapshot> first() {
    for (const ShardSnapshot& shard : shards()) {
      for (const SliceSnapshot& slice : shard.slices) {
        if (slice.key == kFirst) return slice;
      }
    }
    return std::nullopt;
  }

 private:
  Mutex mu_;
  std::vector<ShardSnapshot> shards_ ABSL_GUARDED_BY(mu_);
};

void Push(ShardHost& host, int worker, int64_t step, float gradient) {
  const auto result = Send(host, Request(worker, Step(step), std::nullopt, gradient));
  ASSERT_EQ(result->replies, 1);
  ASSERT_TRUE(result->reply.status.ok()) << result->reply.status;
}

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
  second.gradient = Payload(absl::MakeConstSpan(*gradient), gradient);
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

class RestoredHostTest : public testing::Test {
 protected:
  static ShardHost::Options Options(ConsistencyMode mode) {
    ShardHost::Options options = HostOptions(mode, /*staleness=*/4);
    v1::OptimizerSpec adam;
    adam.set_type(v1::OptimizerSpec::ADAM);
    adam.set_learning_rate(0.1);
    options.optimizer = MakeOptimizer(adam).value();
    return options;
  }
  static std::unique_ptr<ShardHost> Create(ConsistencyMode mode,
                                           const ShardHost::Source& source = {}) {
    auto host = ShardHost::Create(Options(mode), source).value();
    host->SetLiveWorkers(Workers({0, 1}));
    return host;
  }
  // From the shards of these cuts.
  static ShardHost::Source From(Cuts& cuts) {
    ShardHost::Source source;
    source.restored = [&cuts](ShardId id) -> absl::StatusOr<ShardSnapshot> {
      for (const ShardSnapshot& shard : cuts.shards()) {
        if (shard.shard == id) return shard;
      }
      return absl::NotFoundError("no such shard");
    };
    return source;
  }
  // All shards of a host under async that has begun.
  static void CutAll(Cuts& cuts) {
    const auto host = Create(ConsistencyMode::kAsync);
    Push(*host, 0, 0, 1);
    host->CutAt(Step(3), cuts.Adder());
    ASSERT_EQ(cuts.shards().size(), 2u);
  }
  static std::string ErrorOf(ShardHost::Options options, Cuts& cuts) {
    const absl::Status status = ShardHost::Create(std::move(options), From(cuts)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
};

TEST_F(RestoredHostTest, ItGoesOnWithTheSameBits) {
  for (const ConsistencyMode mode : {ConsistencyMode::kBsp, ConsistencyMode::kSsp}) {
    const auto host = Create(mode);
    const auto train = [](ShardHost& host, int64_t begin, int64_t end) {
      for (int64_t step = begin; step < end; ++step) {
        for (const int worker : {0, 1}) {
          Push(host, worker, step,
               0.3f * static_cast<float>(step + 1) + static_cast<float>(worker));
        }
      }
      return Send(host, Request(0, std::nullopt, Step(end)));
    };
    Cuts cuts;
    train(*host, 0, 4);
    // Nobody sends anything of the other slice: its cut under BSP would wait.
    const Step step = mode == ConsistencyMode::kBsp ? Step(4) : host->HoldBack();
    host->CutAt(step, cuts.Adder());
    const auto cut = cuts.first();
    ASSERT_TRUE(cut.has_value());
    ShardHost::Source source;
    source.restored = [&](ShardId id) -> absl::StatusOr<ShardSnapshot> {
      for (const ShardSnapshot& shard : cuts.shards()) {
        if (shard.shard == id) return shard;
      }
      // The other shard, as it was at first.
      Cuts fresh;
      Create(ConsistencyMode::kAsync)->CutAt(Step(3), fresh.Adder());
      for (const ShardSnapshot& shard : fresh.shards()) {
        if (shard.shard == id) return shard;
      }
      return absl::NotFoundError("no such shard");
    };
    const auto restored = Create(mode, source);
    const auto expected = train(*host, 4, 7);
    const auto got = train(*restored, 4, 7);
    EXPECT_EQ(got->reply.version, expected->reply.version);
    EXPECT_EQ(got->reply.version, mode == ConsistencyMode::kBsp ? 7u : 14u);
    EXPECT_EQ(Floats(got->reply.values), Floats(expected->reply.values));
  }
}

TEST_F(RestoredHostTest, AStepThatIsInTheCheckpointIsNotAppliedAgain) {
  const auto host = Create(ConsistencyMode::kSsp);
  for (int64_t step = 0; step < 3; ++step) Push(*host, 0, step, 1);
  Push(*host, 1, 0, 1);
  Cuts cuts;
  host->CutAt(host->HoldBack(), cuts.Adder());
  const auto restored = Create(ConsistencyMode::kSsp, From(cuts));
  const std::vector<float> before = Floats(cuts.first()->values);
  // Another slice lacks step 1 of worker 0, so the worker goes on there.
  const auto again = PushPull(*restored, 0, 1, 100);
  ASSERT_TRUE(again->reply.status.ok()) << again->reply.status;
  EXPECT_EQ(again->reply.version, 4u);
  EXPECT_EQ(again->reply.learning_rate_divisor, 0u);
  EXPECT_EQ(Floats(again->reply.values), before);
  EXPECT_EQ(PushPull(*restored, 0, 3, 1)->reply.version, 5u);
}

TEST_F(RestoredHostTest, OtherProcessesTakeTheWorkersPlacesAndAreHeardFromTheirFirstStepsOn) {
  const auto host = Create(ConsistencyMode::kSsp);
  for (int64_t step = 0; step < 3; ++step) Push(*host, 0, step, 1);
  Push(*host, 1, 0, 1);
  Cuts cuts;
  host->CutAt(host->HoldBack(), cuts.Adder());
  const auto restored = ShardHost::Create(Options(ConsistencyMode::kSsp), From(cuts)).value();
  std::vector<ShardHost::Worker> workers = Workers({0, 1});
  workers[0].incarnation = Incarnation(5000);
  workers[0].first_step = Step(3);
  workers[1].incarnation = Incarnation(5001);
  workers[1].first_step = Step(1);
  restored->SetLiveWorkers(workers);
  ExchangeRequest old = Request(0, Step(3), std::nullopt, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(Send(*restored, std::move(old))->reply.status));
  ExchangeRequest next = Request(0, Step(3), std::nullopt, 1);
  next.incarnation = Incarnation(5000);
  const auto result = Send(*restored, std::move(next));
  EXPECT_TRUE(result->reply.status.ok()) << result->reply.status;
  EXPECT_EQ(result->reply.min_step, Step(1)) << "worker 1's, which is where it was";
}

TEST_F(RestoredHostTest, SlicesOfAnotherJobAreRefused) {
  Cuts cuts;
  CutAll(cuts);
  ShardHost::Options other_size = Options(ConsistencyMode::kAsync);
  other_size.tables[0].elements = 21;
  EXPECT_EQ(ErrorOf(std::move(other_size), cuts),
            "shard 1: slice 1 of table w: expected 20 bytes, 2 arrays of the optimizer and 0 of a "
            "worker, "
            "got 16 bytes, 2 and 0");
  ShardHost::Options other_slices = Options(ConsistencyMode::kAsync);
  other_slices.slice_bytes = 128;
  EXPECT_EQ(ErrorOf(std::move(other_slices), cuts),
            "shard 0: slice 0 of table w: expected 80 bytes, 2 arrays of the optimizer and 0 of a "
            "worker, "
            "got 64 bytes, 2 and 0");
  ShardHost::Options other_optimizer = Options(ConsistencyMode::kAsync);
  other_optimizer.optimizer = HostOptions(ConsistencyMode::kAsync).optimizer;
  EXPECT_EQ(ErrorOf(std::move(other_optimizer), cuts),
            "shard 0: slice 0 of table w: expected 64 bytes, 0 arrays of the optimizer and 0 of a "
            "worker, "
            "got 64 bytes, 2 and 0");
  ShardHost::Options other_shards = Options(ConsistencyMode::kAsync);
  other_shards.shard_count = 1;
  other_shards.shards = {ShardId(0)};
  EXPECT_EQ(ErrorOf(std::move(other_shards), cuts), "shard 0: expected 2 slices, got 1");
}

TEST_F(RestoredHostTest, AShardThatCannotBeReadIsTheHostsError) {
  ShardHost::Source source;
  source.restored = [](ShardId) -> absl::StatusOr<ShardSnapshot> {
    return absl::DataLossError("shard-00000: damaged");
  };
  const absl::Status status = ShardHost::Create(Options(ConsistencyMode::kAsync), source).status();
  EXPECT_EQ(status, absl::DataLossError("shard-00000: damaged"));
}

}  // namespace
}  // namespace capstan
