#include "server/shard/shard_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/codec/codec.h"
#include "common/exchange/request_parts.h"
#include "common/optimizer/optimizer.h"
#include "common/routing/key_shard.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

TEST(ShardHostTest, BspReleasesEveryReplyWithTheMeanOnceAllHavePushed) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/3);
  const auto a = PushPull(*host, 0, 0, 1);
  const auto c = PushPull(*host, 2, 0, 6);
  EXPECT_EQ(a->replies + c->replies, 0);
  const auto b = PushPull(*host, 1, 0, 2);
  for (const auto& result : {a, b, c}) {
    ASSERT_EQ(result->replies, 1);
    EXPECT_TRUE(result->reply.status.ok()) << result->reply.status;
    EXPECT_EQ(result->first_value(), -3.0f);
    EXPECT_EQ(result->reply.version, 1);
    EXPECT_EQ(result->reply.min_step, Step(1));
    EXPECT_EQ(result->reply.epoch, Epoch(1));
  }
}

TEST(ShardHostTest, RowsGoWithSparseTablesOnly) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kAsync);
  options.tables.push_back({"items", 0, 0, {}});
  options.tables[1].sparse = ShardHost::SparseTable();
  options.tables[1].sparse->optimizer = RowOptimizer::Create({}, /*dim=*/2).value();
  options.schedules.push_back(options.schedules[0]);
  auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0}));
  const auto error_of = [&host](ExchangeRequest request) {
    return std::string(Send(*host, std::move(request))->reply.status.message());
  };
  ExchangeRequest of_rows = Request(0, std::nullopt, Step(0));
  of_rows.purpose = RowStep{std::nullopt, StepPull{Step(0)}};
  EXPECT_NE(error_of(of_rows).find("slice 0 of table w: got rows by key, but the table is dense"),
            std::string::npos);
  ExchangeRequest dense = Request(0, std::nullopt, Step(0));
  dense.slice.table = TableId(1);
  EXPECT_NE(error_of(dense).find(
                "slice 0 of table items: expected rows by key, because the table is sparse"),
            std::string::npos);

  ExchangeRequest sparse = of_rows;
  sparse.slice.table = TableId(1);
  EXPECT_EQ(error_of(sparse), "") << "a pull of no rows";
  ExchangeRequest push = sparse;
  RowStep& pushed = RowStepOf(push);
  pushed = {StepPush{Step(0), Gradient()}};
  EXPECT_NE(error_of(push).find("expected rows with a gradient"), std::string::npos);
  pushed.push->gradient.reset();
  pushed.pushed_keys.rows = 1;
  EXPECT_NE(error_of(push).find("none in an empty push"), std::string::npos);
  pushed.pushed_keys.rows = 0;
  pushed.pulled_keys.rows = 2;
  EXPECT_NE(error_of(push).find("rows without a pull"), std::string::npos);
  pushed.pulled_keys.rows = 0;
  EXPECT_EQ(error_of(push), "");
  sparse.slice.slice = SliceIndex(1000);
  EXPECT_NE(error_of(sparse).find("unknown slice 1000 of table items"), std::string::npos);
  sparse.slice.slice = SliceIndex(0);
  RowStepOf(sparse).pulled_keys = {7, 99};
  EXPECT_NE(error_of(sparse).find("send them with the request"), std::string::npos);
}

absl::StatusOr<std::vector<std::vector<float>>> ReadRow(ShardHost& host, const std::string& table,
                                                        uint64_t key) {
  absl::StatusOr<std::vector<std::vector<float>>> result = absl::UnknownError("no answer");
  host.ReadRows(table, {key}, [&result](auto rows) { result = std::move(rows); });
  return result;
}

TEST(ShardHostTest, AReaderNamesASparseTableOfThisServer) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kAsync);
  options.tables.push_back({"items", 0, 0, {}});
  options.tables[1].sparse = ShardHost::SparseTable();
  options.tables[1].sparse->optimizer = RowOptimizer::Create({}, /*dim=*/2).value();
  options.schedules.push_back(options.schedules[0]);
  const std::string dense = options.tables[0].name;
  const uint32_t shard_count = options.shard_count;
  options.shards = {ShardId(0)};
  const auto host = ShardHost::Create(std::move(options)).value();
  uint64_t here = 0, elsewhere = 0;
  while (ShardOfKey(here, shard_count) != ShardId(0)) ++here;
  while (ShardOfKey(elsewhere, shard_count) == ShardId(0)) ++elsewhere;
  EXPECT_EQ(ReadRow(*host, "items", here).value(), std::vector<std::vector<float>>(1))
      << "it has no row yet";
  for (const std::string& table : {dense, std::string("itms")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadRow(*host, table, here).status())) << table;
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadRow(*host, "items", elsewhere).status()));
}

TEST(ShardHostTest, BspPullSeesNothingOfAPushOfTheOpenStep) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  PushPull(*host, 0, 0, 5);
  const auto pull = Send(*host, Request(1, std::nullopt, Step(0)));
  ASSERT_EQ(pull->replies, 1);
  EXPECT_EQ(pull->first_value(), 0.0f);
}

TEST(ShardHostTest, BspRefusesAPullWhoseValuesAreGone) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/1);
  PushPull(*host, 0, 0, 1);
  const auto pull = Send(*host, Request(0, std::nullopt, Step(0)));
  ASSERT_EQ(pull->replies, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(pull->reply.status)) << pull->reply.status;
}

TEST(ShardHostTest, BspKeepsAPushOfTheNextStepApart) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  Send(*host, Request(0, Step(0), std::nullopt, 2));
  Send(*host, Request(0, Step(1), std::nullopt, 100));
  const auto b = PushPull(*host, 1, 0, 4);
  ASSERT_EQ(b->replies, 1);
  EXPECT_EQ(b->first_value(), -3.0f);
  EXPECT_TRUE(Send(*host, Request(0, Step(2), std::nullopt, 1))->reply.status.ok());
  const auto too_early = Send(*host, Request(0, Step(3), std::nullopt, 1));
  EXPECT_TRUE(absl::IsFailedPrecondition(too_early->reply.status)) << too_early->reply.status;
}

TEST(ShardHostTest, SspReplyWaitsUntilTheSlowestIsNearEnough) {
  auto host = MakeHost(ConsistencyMode::kSsp, /*staleness=*/1, /*num_workers=*/2);
  EXPECT_EQ(PushPull(*host, 0, 0, 1)->first_value(), -1.0f);
  const auto second = PushPull(*host, 0, 1, 1);
  EXPECT_EQ(second->replies, 0) << "two steps ahead of a worker that has pushed nothing";
  PushPull(*host, 1, 0, 10);
  ASSERT_EQ(second->replies, 1);
  EXPECT_EQ(second->first_value(), -12.0f);
  EXPECT_EQ(second->reply.min_step, Step(1));
  EXPECT_EQ(second->reply.version, 3);
}

TEST(ShardHostTest, AsyncNeverWaits) {
  auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/2);
  for (int step = 0; step < 10; ++step) {
    const auto reply = PushPull(*host, 0, step, 1);
    ASSERT_EQ(reply->replies, 1);
    EXPECT_EQ(reply->first_value(), -1.0f - step);
    EXPECT_EQ(reply->reply.min_step, Step(0));
  }
}

TEST(ShardHostTest, ARepeatedPushIsAnsweredButNotAppliedAgain) {
  for (const auto mode : {ConsistencyMode::kBsp, ConsistencyMode::kAsync}) {
    auto host = MakeHost(mode, 0, /*num_workers=*/1);
    PushPull(*host, 0, 0, 1);
    const auto again = PushPull(*host, 0, 0, 1);
    ASSERT_EQ(again->replies, 1);
    EXPECT_EQ(again->first_value(), -1.0f);
    EXPECT_EQ(again->reply.version, 1);
  }
}

TEST(ShardHostTest, APushThatSkipsAStepIsRefused) {
  for (const auto mode : {ConsistencyMode::kBsp, ConsistencyMode::kSsp, ConsistencyMode::kAsync}) {
    auto host = MakeHost(mode, 0, /*num_workers=*/2);
    for (const int64_t step : {int64_t{1}, int64_t{1} << 62, INT64_MAX}) {
      const auto reply = Send(*host, Request(0, Step(step), std::nullopt, 1));
      EXPECT_TRUE(absl::IsFailedPrecondition(reply->reply.status)) << reply->reply.status;
    }
    EXPECT_TRUE(Send(*host, Request(0, Step(0), std::nullopt, 1))->reply.status.ok());
  }
}

TEST(ShardHostTest, APullBeyondTheWorkersOwnPushesIsRefused) {
  for (const auto mode : {ConsistencyMode::kBsp, ConsistencyMode::kSsp, ConsistencyMode::kAsync}) {
    auto host = MakeHost(mode, 0, /*num_workers=*/1);
    PushPull(*host, 0, 0, 1);
    const Step held_from = MakeHost(mode, 0, 1)->HoldBack() + 1;
    for (const int64_t step : {int64_t{2}, int64_t{1} << 62, INT64_MAX}) {
      const auto alone = Send(*host, Request(0, std::nullopt, Step(step)));
      ASSERT_EQ(alone->replies, 1);
      EXPECT_TRUE(absl::IsInvalidArgument(alone->reply.status)) << alone->reply.status;
      EXPECT_NE(alone->reply.status.message().find(
                    "slice 0 of table w: expected a pull of worker 0 at step 1 at most"),
                absl::string_view::npos)
          << alone->reply.status;
      const auto repeat = Send(*host, Request(0, Step(0), Step(step), 1));
      EXPECT_TRUE(absl::IsInvalidArgument(repeat->reply.status)) << repeat->reply.status;
    }
    const auto too_far = Send(*host, Request(0, Step(1), Step(3), 1));
    EXPECT_TRUE(absl::IsInvalidArgument(too_far->reply.status)) << too_far->reply.status;
    EXPECT_EQ(host->HoldBack(), held_from) << "a change of the consistency comes no later for it";
    EXPECT_EQ(PushPull(*host, 0, 1, 1)->first_value(), -2.0f) << "nothing of this was applied";
  }
}

TEST(ShardHostTest, ARepeatOfAParkedExchangeTakesItsPlace) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  const auto first = PushPull(*host, 0, 0, 1);
  const auto repeat = PushPull(*host, 0, 0, 1);
  PushPull(*host, 1, 0, 3);
  ASSERT_EQ(first->replies, 1);
  EXPECT_TRUE(absl::IsUnavailable(first->reply.status)) << "to be sent again, if anyone cares";
  ASSERT_EQ(repeat->replies, 1);
  EXPECT_EQ(repeat->first_value(), -2.0f);
}

TEST(ShardHostTest, NonFiniteGradientIsRefusedAndCounted) {
  auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/2);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto reply = PushPull(*host, 1, 0, bad);
    EXPECT_TRUE(absl::IsInvalidArgument(reply->reply.status));
    EXPECT_NE(reply->reply.status.message().find(
                  "slice 0 of table w: the gradient of worker 1 at step 0 holds a NaN"),
              absl::string_view::npos)
        << reply->reply.status;
  }
  EXPECT_EQ(host->non_finite_pushes(), (std::map<WorkerId, int64_t>{{WorkerId(1), 2}}));
  const auto good = PushPull(*host, 1, 0, 1);
  EXPECT_EQ(good->first_value(), -1.0f) << "the refused pushes left no trace";
}

TEST(ShardHostTest, RefusesWhatDoesNotFit) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/1);
  const auto status_of = [&](auto change) {
    ExchangeRequest request = Request(0, Step(0), Step(1), 1);
    change(request);
    const auto result = Send(*host, std::move(request));
    EXPECT_EQ(result->replies, 1);
    return result->reply.status;
  };
  const auto expect = [&](absl::StatusCode code, const std::string& text, auto change) {
    const absl::Status status = status_of(change);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(status.message().find(text), absl::string_view::npos) << status;
  };
  using Code = absl::StatusCode;
  expect(Code::kInvalidArgument, "expected a gradient of 64 bytes (16 float32), got 60",
         [](ExchangeRequest& r) {
           Payload& bytes = DenseStepOf(r).push->gradient->bytes;
           bytes = bytes.Subrange(0, 60);
         });
  expect(
      Code::kInvalidArgument, "expected a gradient of codec 1 (float32), got codec 9",
      [](ExchangeRequest& r) { DenseStepOf(r).push->gradient->codec = static_cast<CodecType>(9); });
  expect(Code::kInvalidArgument, "unknown table 7: expected one of 0 ... 0",
         [](ExchangeRequest& r) { r.slice.table = TableId(7); });
  expect(Code::kInvalidArgument, "unknown slice 2 of table w: expected one of 0 ... 1",
         [](ExchangeRequest& r) { r.slice.slice = SliceIndex(2); });
  expect(Code::kInvalidArgument, "negative",
         [](ExchangeRequest& r) { DenseStepOf(r).push->step = Step(-1); });
  expect(Code::kInvalidArgument, "negative", [](ExchangeRequest& r) {
    r.purpose = DenseStep{std::nullopt, StepPull{Step(-1)}};
  });
  expect(Code::kInvalidArgument, "slice 0 of table w: expected a push, a pull or both, got neither",
         [](ExchangeRequest& r) { r.purpose = DenseStep(); });
  expect(Code::kInvalidArgument, "slice 0 of table w: expected no probe",
         [](ExchangeRequest& r) { r.purpose = Probe(); });
  for (const double rate : {-1.0, 1e300, HUGE_VAL, std::nan("")}) {
    expect(Code::kInvalidArgument,
           "slice 0 of table w: expected a finite learning rate of 0 or more",
           [rate](ExchangeRequest& r) { DenseStepOf(r).push->rates.learning_rate = rate; });
  }
  expect(Code::kInvalidArgument, "slice 0 of table w: optimizer.momentum: expected a number",
         [](ExchangeRequest& r) { DenseStepOf(r).push->rates.momentum = 1; });
  expect(Code::kInvalidArgument,
         "slice 0 of table w: expected no momentum, because the table's optimizer has none",
         [](ExchangeRequest& r) { DenseStepOf(r).push->rates.momentum = 0.5; });
  expect(Code::kInvalidArgument,
         "initial values, but those of this table do not come from worker 0",
         [](ExchangeRequest& r) { r.purpose = InitialValues(); });
  expect(Code::kFailedPrecondition, "stale incarnation of worker 0: expected 1000, got 1",
         [](ExchangeRequest& r) { r.sender.incarnation = Incarnation(1); });
  expect(Code::kFailedPrecondition, "worker 5 is no live member",
         [](ExchangeRequest& r) { r.sender.worker = WorkerId(5); });
  expect(Code::kFailedPrecondition, "another job", [](ExchangeRequest& r) { r.sender.job = 1; });
  expect(Code::kFailedPrecondition, "stale epoch 0: the current one is 1",
         [](ExchangeRequest& r) { r.epoch = Epoch(0); });
  expect(Code::kUnavailable, "not heard of epoch 2",
         [](ExchangeRequest& r) { r.epoch = Epoch(2); });
  EXPECT_EQ(PushPull(*host, 0, 0, 1)->first_value(), -1.0f) << "nothing of this was applied";
}

TEST(ShardHostTest, EpochsFromThePrimarysFirstToTheNewestAreAdmitted) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kAsync);
  options.epoch = Epoch(3);
  const auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0}));
  const auto pull = [&host](uint64_t epoch) {
    ExchangeRequest request = Request(0, std::nullopt, Step(0));
    request.epoch = Epoch(epoch);
    return Send(*host, std::move(request))->reply;
  };
  EXPECT_TRUE(pull(3).status.ok());
  EXPECT_TRUE(absl::IsUnavailable(pull(5).status));
  host->SetEpoch(Epoch(5));
  for (const uint64_t epoch : {3, 4, 5}) {
    const ExchangeReply reply = pull(epoch);
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.epoch, Epoch(3)) << "the shard has not moved";
  }
  const ExchangeReply stale = pull(2);
  EXPECT_TRUE(absl::IsFailedPrecondition(stale.status));
  EXPECT_NE(stale.status.message().find("stale epoch 2: the current one is 5"), std::string::npos);
  EXPECT_EQ(stale.epoch, Epoch(3));
  EXPECT_TRUE(absl::IsUnavailable(pull(6).status));
}

TEST(ShardHostTest, EachTableHasItsOwnOptimizer) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kAsync);
  options.tables.push_back({"v", 16, 0.0, {}});
  v1::OptimizerSpec momentum;
  momentum.set_type(v1::OptimizerSpec::MOMENTUM);
  momentum.set_learning_rate(0.5);
  momentum.set_momentum(0.5);
  options.tables[1].optimizer = MakeOptimizer(momentum).value();
  options.schedules.push_back(options.schedules[0]);
  const auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0}));
  const auto push = [&host](uint32_t table, int64_t step) {
    ExchangeRequest request = Request(0, Step(step), Step(step + 1), 1);
    request.slice.table = TableId(table);
    return Send(*host, std::move(request))->first_value();
  };
  EXPECT_EQ(push(0, 0), -1.0f);
  EXPECT_EQ(push(0, 1), -2.0f) << "SGD with the learning rate 1";
  EXPECT_EQ(push(1, 0), -0.5f);
  EXPECT_EQ(push(1, 1), -0.5f - 0.5f * 1.5f) << "the velocity is 1 and then 1.5";
}

TEST(ShardHostTest, AllSlicesAreReadAndAnErrorEndsTheReading) {
  auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/1);
  ASSERT_TRUE(PushPull(*host, 0, 0, 3)->reply.status.ok());
  std::vector<float> table(20, 99.0f);
  ASSERT_TRUE(host->ReadSlices([&](uint64_t offset, const SliceSnapshot& slice) {
                    EXPECT_EQ(slice.key.table, TableId(0));
                    slice.values.CopyTo({&table[offset], slice.values.size_bytes() / 4});
                    return absl::OkStatus();
                  })
                  .ok());
  std::vector<float> expected(20, 0.0f);
  std::fill_n(expected.begin(), 16, -3.0f);  // the first slice has had the push
  EXPECT_EQ(table, expected);
  int calls = 0;
  EXPECT_EQ(host->ReadSlices([&](uint64_t, const SliceSnapshot&) {
    ++calls;
    return absl::DataLossError("full");
  }),
            absl::DataLossError("full"));
  EXPECT_EQ(calls, 1);
}

TEST(ShardHostTest, DestructionAnswersWhatIsParked) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  const auto parked = PushPull(*host, 0, 0, 1);
  host.reset();
  ASSERT_EQ(parked->replies, 1);
  EXPECT_TRUE(absl::IsUnavailable(parked->reply.status));
}

TEST(ShardHostTest, WorkersOnTheirOwnThreadsGetEachStepsMean) {
  const int num_workers = 4, num_steps = 200;
  auto host = MakeHost(ConsistencyMode::kBsp, 0, num_workers);
  std::vector<std::thread> threads;
  std::vector<float> last_values(num_workers);
  for (int worker = 0; worker < num_workers; ++worker) {
    threads.emplace_back([&, worker] {
      for (int step = 0; step < num_steps; ++step) {
        std::atomic<bool> answered = false;
        host->Exchange(
            Request(worker, Step(step), Step(step + 1), 1.0f + worker), [] {},
            [&](ExchangeReply reply) {
              std::vector<float> values(16);
              reply.values.CopyTo(absl::MakeSpan(values));
              last_values[worker] = values[0];
              answered = true;
            });
        while (!answered) std::this_thread::yield();
        EXPECT_EQ(last_values[worker], -2.5f * (step + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ShardHostTest, AfterWholeStepsPushesWaitUntilTheLastOfThemIsComplete) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  host->SetSchedules(
      {Schedule({{Step(0), ConsistencyMode::kBsp}, {Step(1), ConsistencyMode::kAsync}})});
  // Worker 0 does not wait for the values between its pushes.
  const auto kept = Send(*host, Request(0, Step(0), std::nullopt, 2));
  EXPECT_EQ(kept->replies, 0) << "it is not applied yet";
  const auto ahead = PushPull(*host, 0, 1, 10);
  EXPECT_EQ(ahead->replies, 0) << "it lacks its own push of step 0";
  const auto pull = Send(*host, Request(1, std::nullopt, Step(0)));
  ASSERT_EQ(pull->replies, 1);
  EXPECT_EQ(pull->first_value(), 0.0f) << "isolation";
  const auto other = PushPull(*host, 1, 0, 4);
  EXPECT_EQ(kept->replies, 1);
  ASSERT_EQ(ahead->replies + other->replies, 2);
  EXPECT_EQ(other->first_value(), -13.0f) << "the mean of step 0, then the push of step 1";
  EXPECT_EQ(other->reply.version, 2);
}

TEST(ShardHostTest, BeforeWholeStepsAWorkerMayBeFarAhead) {
  auto host = MakeHost(ConsistencyMode::kSsp, 9, /*num_workers=*/2);
  host->SetSchedules(
      {Schedule({{Step(0), ConsistencyMode::kSsp, 9}, {Step(3), ConsistencyMode::kBsp}})});
  for (int64_t step = 0; step < 3; ++step) {
    Send(*host, Request(0, Step(step), std::nullopt, 1));
  }
  const auto whole = PushPull(*host, 0, 3, 100);
  EXPECT_EQ(whole->replies, 0) << "step 3 is not complete";
  const auto slow = Send(*host, Request(1, std::nullopt, Step(0)));
  ASSERT_EQ(slow->replies, 1);
  EXPECT_EQ(slow->first_value(), -3.0f) << "all but the push of the whole step";
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Send(*host, Request(0, Step(5), std::nullopt, 1))->reply.status));
}

TEST(ShardHostTest, WhatIsHeldBackIsAnsweredUnderTheNewSchedule) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  PushPull(*host, 0, 0, 1);
  PushPull(*host, 1, 0, 1);
  const Step held_from = host->HoldBack();
  EXPECT_GT(held_from, Step(1)) << "step 1 has been asked for";
  EXPECT_EQ(host->HoldBack(), held_from);
  for (Step step(1); step < held_from; step = step + 1) {
    PushPull(*host, 0, step.value(), 1);
    const auto last = PushPull(*host, 1, step.value(), 1);
    EXPECT_EQ(last->replies, step + 1 < held_from ? 1 : 0) << "step " << step;
  }
  const auto early = Send(*host, Request(1, held_from, std::nullopt, 1));
  ASSERT_EQ(early->replies, 1);
  EXPECT_TRUE(absl::IsUnavailable(early->reply.status)) << "try again";

  const auto pull = Send(*host, Request(0, std::nullopt, held_from));
  EXPECT_EQ(pull->replies, 0);
  host->SetSchedules(
      {Schedule({{Step(0), ConsistencyMode::kBsp}, {held_from, ConsistencyMode::kAsync}})});
  EXPECT_EQ(pull->replies, 1);
  EXPECT_TRUE(pull->reply.status.ok());
  EXPECT_EQ(PushPull(*host, 0, held_from.value(), 1)->replies, 1) << "nobody waits now";
}

}  // namespace
}  // namespace capstan
