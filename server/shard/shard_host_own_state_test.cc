// Workers' own states: into the cuts of shards, and out of the hosts that go on from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exchange/payload_floats.h"
#include "server/shard/cuts.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr size_t kSlice = 16;  // elements of the first slice

// 2 workers with 2 arrays of own state. The table is the first slice alone.
std::unique_ptr<ShardHost> MakeOwnHost(ConsistencyMode mode, const ShardHost::Source& source = {}) {
  ShardHost::Options options = HostOptions(mode);
  options.tables[0].elements = kSlice;
  options.own_arrays = 2;
  return ShardHost::Create(std::move(options), source).value();
}

Payload State(float value) {
  const auto floats = std::make_shared<std::vector<float>>(2 * kSlice, value);
  return Payload(absl::MakeConstSpan(*floats), floats);
}

ExchangeReply SendState(ShardHost& host, int worker, uint64_t cut, const Payload& state) {
  ExchangeRequest request = Request(worker, std::nullopt, std::nullopt);
  request.purpose = WorkerState{cut, state};
  return Send(host, std::move(request))->reply;
}

ExchangeReply PullState(ShardHost& host, int worker, uint64_t life = 0) {
  ExchangeRequest request = Request(worker, std::nullopt, std::nullopt);
  request.sender.incarnation = Incarnation(request.sender.incarnation.value() + life);
  request.purpose = WorkerStatePull();
  return Send(host, std::move(request))->reply;
}

// A checkpoint at step 1 under BSP. Worker 0 has a state of fives, worker 1 one of sixes.
ShardSnapshot CheckpointAtStep1() {
  const auto host = MakeOwnHost(ConsistencyMode::kBsp);
  host->SetLiveWorkers(Workers({0, 1}));
  std::optional<ShardSnapshot> cut;
  host->CutAt(Step(1), [&cut](ShardSnapshot snapshot) {
    if (!snapshot.slices.empty()) cut = std::move(snapshot);
  });
  const auto first = PushPull(*host, 0, 0, 1);
  EXPECT_EQ(first->replies, 0);
  const auto second = PushPull(*host, 1, 0, 1);
  for (const auto& answer : {first, second}) EXPECT_EQ(answer->reply.cut, 1u);
  EXPECT_TRUE(SendState(*host, 0, 1, State(5)).status.ok());
  EXPECT_TRUE(PushPull(*host, 0, 1, 1)->replies == 0) << "the training goes on";
  EXPECT_FALSE(cut.has_value()) << "the state of worker 1 has not come";
  EXPECT_TRUE(SendState(*host, 1, 1, State(6)).status.ok());
  EXPECT_TRUE(cut.has_value());
  return *std::move(cut);
}

// The workers of another life of the job.
std::vector<ShardHost::Worker> WorkersOfLife(uint64_t life) {
  std::vector<ShardHost::Worker> workers = Workers({0, 1});
  for (ShardHost::Worker& worker : workers) {
    worker.incarnation = Incarnation(worker.incarnation.value() + life);
    worker.first_step = Step(1);
  }
  return workers;
}

TEST(ShardHostOwnStateTest, ACutWaitsForTheStateOfEachWorker) {
  const ShardSnapshot cut = CheckpointAtStep1();
  const SliceSnapshot& slice = cut.slices.at(0);
  EXPECT_EQ(slice.min_step, Step(1)) << "the cut itself did not wait";
  EXPECT_EQ(slice.own_arrays, 2u);
  ASSERT_THAT(slice.own, SizeIs(2));
  EXPECT_THAT(Floats(slice.own[0].arrays), Each(5));
  EXPECT_THAT(Floats(slice.own[1].arrays), Each(6));
}

TEST(ShardHostOwnStateTest, ADeadWorkersStateIsNotAwaited) {
  const auto host = MakeOwnHost(ConsistencyMode::kAsync);
  host->SetLiveWorkers(Workers({0, 1}));
  int cuts = 0;
  host->CutAt(Step(3), [&cuts](const ShardSnapshot& snapshot) { cuts += snapshot.slices.size(); });
  EXPECT_TRUE(SendState(*host, 0, 1, State(5)).status.ok());
  EXPECT_EQ(cuts, 0);
  host->SetLiveWorkers(Workers({0}));
  EXPECT_EQ(cuts, 1);
}

TEST(ShardHostOwnStateTest, AWorkerGetsItsStateBackButNotOneInItsPlace) {
  const ShardSnapshot cut = CheckpointAtStep1();
  ShardHost::Source source;
  source.restored = [&cut](ShardId) { return cut; };
  const auto host = MakeOwnHost(ConsistencyMode::kBsp, source);
  host->SetLiveWorkers(WorkersOfLife(100));
  EXPECT_THAT(Floats(PullState(*host, 0, 100).values), Each(5));
  std::vector<ShardHost::Worker> workers = WorkersOfLife(100);
  workers[1].incarnation = Incarnation(workers[1].incarnation.value() + 100);
  host->SetLiveWorkers(workers);
  EXPECT_THAT(Floats(PullState(*host, 0, 100).values), Each(5));
  const ExchangeReply none = PullState(*host, 1, 200);
  EXPECT_TRUE(none.status.ok()) << none.status;
  EXPECT_TRUE(none.values.empty());
}

TEST(ShardHostOwnStateTest, WithoutOwnStateNoReplySpeaksOfCuts) {
  const auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/1);
  int cuts = 0;
  host->CutAt(Step(3), [&cuts](const ShardSnapshot&) { ++cuts; });
  EXPECT_EQ(cuts, 2) << "both shards at once";
  EXPECT_EQ(PushPull(*host, 0, 0, 1)->reply.cut, 0u);
}

TEST(ShardHostOwnStateTest, WrongExchangesOfOwnStateAreRefused) {
  const auto host = MakeOwnHost(ConsistencyMode::kAsync);
  host->SetLiveWorkers(Workers({0}));
  const absl::Status length = SendState(*host, 0, 1, State(5).Subrange(0, 8)).status;
  EXPECT_TRUE(absl::IsInvalidArgument(length));
  EXPECT_THAT(std::string(length.message()),
              HasSubstr("slice 0 of table w: expected an own state of 128 bytes"));
  EXPECT_TRUE(absl::IsInvalidArgument(SendState(*host, 0, /*cut=*/0, State(5)).status));
  EXPECT_TRUE(absl::IsFailedPrecondition(SendState(*host, 1, 1, State(1)).status))
      << "worker 1 is no member";
}

TEST(ShardHostOwnStateTest, ACheckpointWithOtherArraysDoesNotFit) {
  const ShardSnapshot cut = CheckpointAtStep1();
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.tables[0].elements = kSlice;
  ShardHost::Source source;
  source.restored = [&cut](ShardId) { return cut; };
  EXPECT_TRUE(absl::IsInvalidArgument(ShardHost::Create(std::move(options), source).status()));
}

}  // namespace
}  // namespace capstan
