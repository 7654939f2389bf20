// Hosts that go on from cuts of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exchange/payload_floats.h"
#include "common/optimizer/optimizer.h"
#include "server/shard/cuts.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

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
  next.sender.incarnation = Incarnation(5000);
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
