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
#include "server/sparse/row_optimizer.h"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
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

// 2 workers without arrays of own state. The table is the first slice alone.
std::unique_ptr<ShardHost> MakeProgramHost(ConsistencyMode mode,
                                           const ShardHost::Source& source = {}) {
  ShardHost::Options options = HostOptions(mode);
  options.tables[0].elements = kSlice;
  std::unique_ptr<ShardHost> host = ShardHost::Create(std::move(options), source).value();
  host->SetLiveWorkers(Workers({0, 1}));
  return host;
}

ExchangeRequest ProgramState(int worker, uint64_t cut, const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  Payload state{owner};
  state.Append({reinterpret_cast<const uint8_t*>(owner->data()), owner->size()});
  ExchangeRequest request = Request(worker, std::nullopt, std::nullopt);
  request.purpose = WorkerState{cut, state, /*is_program=*/true};
  return request;
}

ExchangeRequest ProgramStatePull(int worker, uint64_t life = 0) {
  ExchangeRequest request = Request(worker, std::nullopt, std::nullopt);
  request.sender.incarnation = Incarnation(request.sender.incarnation.value() + life);
  request.purpose = WorkerStatePull{/*is_program=*/true};
  return request;
}

std::string TextOf(const Payload& payload) {
  std::string text(payload.size_bytes(), '\0');
  payload.CopyTo({reinterpret_cast<uint8_t*>(text.data()), text.size()});
  return text;
}

// A checkpoint at step 1 under BSP. The program of worker 0 has the state "abcde", and that of
// worker 1 an empty one.
ShardSnapshot CheckpointOfPrograms() {
  const auto host = MakeProgramHost(ConsistencyMode::kBsp);
  for (const int worker : {0, 1}) {
    EXPECT_TRUE(Send(*host, ProgramState(worker, 0, ""))->reply.status.ok());
  }
  Cuts cuts;
  host->CutAt(Step(1), cuts.Adder());
  for (const int worker : {0, 1}) Push(*host, worker, 0, 1);
  EXPECT_TRUE(Send(*host, ProgramState(0, 1, "abcde"))->reply.status.ok());
  EXPECT_FALSE(cuts.first().has_value()) << "the state of worker 1 has not come";
  EXPECT_TRUE(Send(*host, ProgramState(1, 1, ""))->reply.status.ok());
  for (const ShardSnapshot& shard : cuts.shards()) {
    if (!shard.slices.empty()) return shard;
  }
  ADD_FAILURE() << "the cut is not complete";
  return {};
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

TEST(ShardHostOwnStateTest, AProgramsStateAtAnotherSliceIsRefused) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kAsync);
  ShardHost::Table items = {"items", 0, 0, {}};
  items.sparse = ShardHost::SparseTable();
  items.sparse->optimizer = RowOptimizer::Create({}, /*dim=*/2).value();
  options.tables.insert(options.tables.begin(), items);
  options.schedules.push_back(options.schedules[0]);
  const auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0}));
  const SliceKey first_dense = {TableId(1), SliceIndex(0)};
  for (const SliceKey key :
       {SliceKey{TableId(0), SliceIndex(0)}, first_dense, SliceKey{TableId(1), SliceIndex(1)}}) {
    for (ExchangeRequest request :
         {ProgramState(0, 0, ""), ProgramState(0, 1, "abc"), ProgramStatePull(0)}) {
      request.slice = key;
      const absl::Status status = Send(*host, std::move(request))->reply.status;
      if (key == first_dense) {
        EXPECT_TRUE(status.ok()) << status;
        continue;
      }
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("at the first slice of the job's first dense table"));
    }
  }
}

TEST(ShardHostOwnStateTest, ACutWaitsForProgramsThatHaveSaidSo) {
  const auto host = MakeProgramHost(ConsistencyMode::kBsp);
  Cuts cuts;
  host->CutAt(Step(1), cuts.Adder());
  for (const int worker : {0, 1}) EXPECT_EQ(PushPull(*host, worker, 0, 1)->reply.cut, 0u);
  ASSERT_TRUE(cuts.first().has_value()) << "no program has said that it has a state";
  EXPECT_TRUE(cuts.first()->programs.empty());

  EXPECT_TRUE(Send(*host, ProgramState(1, 0, ""))->reply.status.ok());
  Cuts later;
  host->CutAt(Step(2), later.Adder());
  const auto first = PushPull(*host, 0, 1, 1);
  const auto second = PushPull(*host, 1, 1, 1);
  for (const auto& answer : {first, second}) EXPECT_EQ(answer->reply.cut, 2u);
  EXPECT_FALSE(later.first().has_value());
  EXPECT_TRUE(Send(*host, ProgramState(0, 2, "nobody asks for it"))->reply.status.ok());
  EXPECT_TRUE(Send(*host, ProgramState(1, 1, "of an earlier cut"))->reply.status.ok());
  EXPECT_FALSE(later.first().has_value());
  EXPECT_TRUE(Send(*host, ProgramState(1, 2, "abcde"))->reply.status.ok());
  ASSERT_TRUE(later.first().has_value());
  const SliceSnapshot slice = *later.first();
  EXPECT_EQ(slice.min_step, Step(2));
  ASSERT_THAT(slice.programs, SizeIs(1));
  EXPECT_EQ(slice.programs[0].worker, WorkerId(1));
  EXPECT_EQ(TextOf(slice.programs[0].arrays), "abcde");
}

TEST(ShardHostOwnStateTest, ACutWaitsForArraysAndForPrograms) {
  const auto host = MakeOwnHost(ConsistencyMode::kAsync);
  host->SetLiveWorkers(Workers({0}));
  EXPECT_TRUE(Send(*host, ProgramState(0, 0, ""))->reply.status.ok());
  Cuts cuts;
  host->CutAt(Step(3), cuts.Adder());
  EXPECT_TRUE(Send(*host, ProgramState(0, 1, "abcde"))->reply.status.ok());
  EXPECT_FALSE(cuts.first().has_value()) << "the arrays have not come";
  EXPECT_TRUE(SendState(*host, 0, 1, State(5)).status.ok());
  ASSERT_TRUE(cuts.first().has_value());
  EXPECT_THAT(cuts.first()->own, SizeIs(1));
  EXPECT_THAT(cuts.first()->programs, SizeIs(1));
}

TEST(ShardHostOwnStateTest, ADeadWorkersProgramIsNotAwaitedButNamed) {
  const auto host = MakeProgramHost(ConsistencyMode::kAsync);
  EXPECT_TRUE(Send(*host, ProgramState(1, 0, ""))->reply.status.ok());
  Cuts cuts;
  host->CutAt(Step(3), cuts.Adder());
  EXPECT_FALSE(cuts.first().has_value());
  host->SetLiveWorkers(Workers({0}));
  ASSERT_TRUE(cuts.first().has_value());
  EXPECT_TRUE(cuts.first()->programs.empty());
  EXPECT_THAT(cuts.first()->without_own, ElementsAre(WorkerId(1)));
}

TEST(ShardHostOwnStateTest, AWorkerGetsItsProgramsStateBackUntilItPushes) {
  const ShardSnapshot cut = CheckpointOfPrograms();
  ASSERT_THAT(cut.slices.at(0).programs, SizeIs(2));
  ShardHost::Source source;
  source.restored = [&cut](ShardId) { return cut; };
  const auto host = MakeProgramHost(ConsistencyMode::kBsp, source);
  host->SetLiveWorkers(WorkersOfLife(100));
  for (int i = 0; i < 2; ++i) {
    const ExchangeReply reply = Send(*host, ProgramStatePull(0, 100))->reply;
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(TextOf(reply.values), "abcde");
  }
  const ExchangeReply empty = Send(*host, ProgramStatePull(1, 100))->reply;
  EXPECT_TRUE(empty.status.ok()) << empty.status;
  EXPECT_TRUE(empty.values.empty());
  EXPECT_TRUE(PullState(*host, 0, 100).values.empty()) << "its engine has none";

  ExchangeRequest push = Request(0, Step(1), std::nullopt, 1);
  push.sender.incarnation = ProgramStatePull(0, 100).sender.incarnation;
  EXPECT_TRUE(Send(*host, std::move(push))->reply.status.ok());
  const ExchangeReply none = Send(*host, ProgramStatePull(0, 100))->reply;
  EXPECT_TRUE(none.status.ok()) << none.status;
  EXPECT_TRUE(none.values.empty());
}

TEST(ShardHostOwnStateTest, AProgramInAnothersPlaceGetsNoStateAndIsNotAwaited) {
  const ShardSnapshot cut = CheckpointOfPrograms();
  ShardHost::Source source;
  source.restored = [&cut](ShardId) { return cut; };
  const auto host = MakeProgramHost(ConsistencyMode::kBsp, source);
  host->SetLiveWorkers(WorkersOfLife(100));
  ExchangeRequest announcement = ProgramState(0, 0, "");
  announcement.sender.incarnation = ProgramStatePull(0, 100).sender.incarnation;
  EXPECT_TRUE(Send(*host, std::move(announcement))->reply.status.ok());
  host->SetLiveWorkers(WorkersOfLife(200));
  EXPECT_TRUE(Send(*host, ProgramStatePull(0, 200))->reply.values.empty());
  Cuts cuts;
  host->CutAt(Step(1), cuts.Adder());
  EXPECT_TRUE(cuts.first().has_value());
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
