#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/codec/codec.h"
#include "server/shard/one_table_host.h"
#include "server/shard/shard_host.h"

namespace capstan {
namespace {

constexpr uint64_t kSliceBytes = 16 * sizeof(float);
constexpr uint64_t kTableBytes = 20 * sizeof(float);

TEST(ShardHostCountsTest, ExchangesAreCountedByKindAndBytes) {
  const auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/1);
  Send(*host, Request(0, std::nullopt, Step(0)));
  Send(*host, Request(0, Step(0), std::nullopt, 1));
  PushPull(*host, 0, 1, 1);
  PushPull(*host, 0, 2, 1);
  ExchangeRequest own = Request(0, std::nullopt, std::nullopt);
  own.purpose = WorkerStatePull();
  Send(*host, std::move(own));
  const ShardCounts counts = host->counts();
  EXPECT_EQ(counts.pulls, 1);
  EXPECT_EQ(counts.pushes, 1);
  EXPECT_EQ(counts.push_pulls, 2);
  EXPECT_EQ(counts.own_states, 1);
  EXPECT_EQ(host->num_exchanges(), 5);
  EXPECT_EQ(counts.received.of(CodecType::kFloat32), 3 * kSliceBytes);
  EXPECT_EQ(counts.sent.of(CodecType::kFloat32), 3 * kSliceBytes);
  EXPECT_EQ(counts.duplicate_pushes, 0);
}

TEST(ShardHostCountsTest, WhoIsNoMemberIsNotCounted) {
  const auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/1);
  EXPECT_FALSE(PushPull(*host, /*worker=*/1, 0, 1)->reply.status.ok());
  EXPECT_EQ(host->counts().push_pulls, 0);
  EXPECT_EQ(host->counts().received.of(CodecType::kFloat32), 0);
}

TEST(ShardHostCountsTest, ARepeatedPushIsADuplicate) {
  const auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/1);
  PushPull(*host, 0, 0, 1);
  PushPull(*host, 0, 0, 1);
  EXPECT_EQ(host->counts().duplicate_pushes, 1);
  EXPECT_EQ(host->counts().push_pulls, 2);
}

TEST(ShardHostCountsTest, AReplyIsCountedOnceItIsNotParkedAnyMore) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  const auto first = PushPull(*host, 0, 0, 1);
  EXPECT_EQ(first->replies, 0);
  EXPECT_EQ(host->counts().parked, 1);
  EXPECT_EQ(host->counts().sent.of(CodecType::kFloat32), 0);
  EXPECT_EQ(host->counts().memory.accumulators, kSliceBytes);
  PushPull(*host, 1, 0, 1);
  EXPECT_EQ(host->counts().parked, 0);
  EXPECT_EQ(host->counts().sent.of(CodecType::kFloat32), 2 * kSliceBytes);
}

TEST(ShardHostCountsTest, MemoryIsThatOfValuesAndOfTheOptimizersState) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kAsync);
  v1::OptimizerSpec adam;
  adam.set_type(v1::OptimizerSpec::ADAM);
  adam.set_learning_rate(1.0);
  adam.set_beta1(0.9);
  adam.set_beta2(0.999);
  adam.set_epsilon(1e-8);
  options.optimizer = MakeOptimizer(adam).value();
  const auto host = ShardHost::Create(std::move(options)).value();
  EXPECT_EQ(host->counts().memory.parameters, kTableBytes);
  EXPECT_EQ(host->counts().memory.optimizer, 2 * kTableBytes);
  host->SetLiveWorkers(Workers({0}));
  const auto read = Send(*host, Request(0, std::nullopt, Step(0)));
  PushPull(*host, 0, 0, 1);
  EXPECT_EQ(host->counts().memory.parameters, kTableBytes + kSliceBytes)
      << "the first reply has the old values";
}

TEST(ShardHostCountsTest, TheTimeUnderTheLockIsMeasured) {
  // Each look at it takes a second.
  class SlowClock : public FakeClock {
   public:
    absl::Time Now() const override { return FakeClock::Now() + absl::Seconds(++looks_); }

   private:
    mutable int64_t looks_ = 0;
  };
  SlowClock clock;
  ShardHost::Options options = HostOptions(ConsistencyMode::kAsync);
  options.clock = &clock;
  const auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0}));
  PushPull(*host, 0, 0, 1);
  EXPECT_EQ(host->counts().lock_held, absl::Seconds(1));
  EXPECT_EQ(host->counts().lock_wait, absl::ZeroDuration()) << "the lock was free";
}

}  // namespace
}  // namespace capstan
