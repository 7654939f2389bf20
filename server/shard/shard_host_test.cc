#include "server/shard/shard_host.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/consistency/make_consistency_schedule.h"
#include "server/consistency/update_scale.h"
#include "server/optimizer/make_optimizer.h"

namespace capstan {
namespace {

constexpr uint64_t kJob = 99;
const SliceKey kFirst{TableId(0), SliceIndex(0)};

std::shared_ptr<const ConsistencySchedule> Schedule(std::vector<ConsistencyPeriod> periods) {
  return MakeConsistencySchedule(periods).value();
}

Incarnation IncarnationOf(int worker) { return Incarnation(1000 + worker); }

std::vector<ShardHost::Worker> Workers(const std::vector<int>& ids) {
  std::vector<ShardHost::Worker> workers;
  for (const int id : ids) workers.push_back({WorkerId(id), IncarnationOf(id)});
  return workers;
}

// One table "w" of 20 floats in slices of 16, all zero at first; SGD with learning rate 1, so that
// the values are minus the sum of what was applied.
std::unique_ptr<ShardHost> MakeHost(ConsistencyMode mode, int64_t staleness, int num_workers,
                                    Shard::Interruption interruption = nullptr) {
  ShardHost::Options options;
  options.job = kJob;
  options.update_scale = UpdateScale::kSum;  // so that what was pushed tells what is pulled
  options.tables = {{"w", 20, 0.0}};
  options.slice_bytes = 64;
  options.shard_count = 2;
  v1::OptimizerSpec sgd;
  sgd.set_type(v1::OptimizerSpec::SGD);
  sgd.set_learning_rate(1.0);
  options.optimizer = *MakeOptimizer(sgd);
  options.schedules = {Schedule({{Step(0), mode, staleness}})};
  options.shards = {ShardId(0), ShardId(1)};
  options.epoch = Epoch(1);
  options.interruption = std::move(interruption);
  std::unique_ptr<ShardHost> host = ShardHost::Create(std::move(options)).value();
  std::vector<int> ids;
  for (int i = 0; i < num_workers; ++i) ids.push_back(i);
  host->SetLiveWorkers(Workers(ids));
  return host;
}

ExchangeRequest Request(int worker, std::optional<Step> push, std::optional<Step> pull,
                        float gradient = 0) {
  ExchangeRequest request;
  request.job = kJob;
  request.worker = WorkerId(worker);
  request.incarnation = IncarnationOf(worker);
  request.epoch = Epoch(1);
  request.slice = kFirst;
  request.push_step = push;
  request.pull_step = pull;
  if (push.has_value()) {
    auto values = std::make_shared<std::vector<float>>(16, gradient);
    request.gradient = Payload(absl::MakeConstSpan(*values), values);
  }
  return request;
}

// Collects the one reply of an exchange.
struct Result {
  int replies = 0;
  ExchangeReply reply;
  float first_value() const {
    std::vector<float> values(reply.values.size_bytes() / sizeof(float));
    reply.values.CopyTo(absl::MakeSpan(values));
    return values.at(0);
  }
};

std::shared_ptr<Result> Send(ShardHost& host, ExchangeRequest request) {
  auto result = std::make_shared<Result>();
  host.Exchange(
      std::move(request), [] {},
      [result](ExchangeReply reply) {
        ++result->replies;
        result->reply = std::move(reply);
      });
  return result;
}

// Pushes `gradient` at `step` and pulls at the next.
std::shared_ptr<Result> PushPull(ShardHost& host, int worker, int64_t step, float gradient) {
  return Send(host, Request(worker, Step(step), Step(step + 1), gradient));
}

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

TEST(ShardHostTest, BspGoesOnWithoutAWorkerThatDied) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/3);
  const auto a = PushPull(*host, 0, 0, 1);
  const auto b = PushPull(*host, 1, 0, 3);
  host->SetLiveWorkers(Workers({0, 1}));
  ASSERT_EQ(a->replies, 1);
  ASSERT_EQ(b->replies, 1);
  EXPECT_EQ(a->first_value(), -2.0f) << "the mean of the two that pushed";
  const auto dead = PushPull(*host, 2, 0, 100);
  EXPECT_TRUE(absl::IsFailedPrecondition(dead->reply.status)) << dead->reply.status;
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

TEST(ShardHostTest, SspJoinerEntersAtMinStep) {
  auto host = MakeHost(ConsistencyMode::kSsp, /*staleness=*/0, /*num_workers=*/1);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(PushPull(*host, 0, step, 1)->replies, 1);
  host->SetLiveWorkers(Workers({0, 1}));
  const auto joiner = Send(*host, Request(1, std::nullopt, Step(4)));
  ASSERT_EQ(joiner->replies, 1);
  EXPECT_EQ(joiner->reply.min_step, Step(4));
  EXPECT_EQ(PushPull(*host, 0, 4, 1)->replies, 0) << "now it waits for the joiner";
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

TEST(ShardHostTest, SspGoesOnWithoutAWorkerThatDied) {
  auto host = MakeHost(ConsistencyMode::kSsp, /*staleness=*/0, /*num_workers=*/2);
  const auto parked = PushPull(*host, 0, 0, 1);
  EXPECT_EQ(parked->replies, 0);
  host->SetLiveWorkers(Workers({0}));
  ASSERT_EQ(parked->replies, 1);
  EXPECT_TRUE(parked->reply.status.ok());
  EXPECT_EQ(PushPull(*host, 0, 1, 1)->replies, 1);
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
         [](ExchangeRequest& r) { r.gradient = r.gradient.Subrange(0, 60); });
  expect(Code::kInvalidArgument, "unknown table 7: expected one of 0 ... 0",
         [](ExchangeRequest& r) { r.slice.table = TableId(7); });
  expect(Code::kInvalidArgument, "unknown slice 2 of table w: expected one of 0 ... 1",
         [](ExchangeRequest& r) { r.slice.slice = SliceIndex(2); });
  expect(Code::kInvalidArgument, "negative", [](ExchangeRequest& r) { r.push_step = Step(-1); });
  expect(Code::kInvalidArgument, "got neither", [](ExchangeRequest& r) {
    r.push_step.reset();
    r.pull_step.reset();
  });
  expect(Code::kInvalidArgument, "without a push", [](ExchangeRequest& r) { r.push_step.reset(); });
  expect(Code::kFailedPrecondition, "stale incarnation of worker 0: expected 1000, got 1",
         [](ExchangeRequest& r) { r.incarnation = Incarnation(1); });
  expect(Code::kFailedPrecondition, "worker 5 is no live member",
         [](ExchangeRequest& r) { r.worker = WorkerId(5); });
  expect(Code::kFailedPrecondition, "another job", [](ExchangeRequest& r) { r.job = 1; });
  expect(Code::kFailedPrecondition, "stale epoch 0: the current one is 1",
         [](ExchangeRequest& r) { r.epoch = Epoch(0); });
  expect(Code::kUnavailable, "not heard of epoch 2",
         [](ExchangeRequest& r) { r.epoch = Epoch(2); });
  EXPECT_EQ(PushPull(*host, 0, 0, 1)->first_value(), -1.0f) << "nothing of this was applied";
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

TEST(ShardHostTest, AWorkerThatComesBackBeginsBeyondItsUpdatesAndNobodyMovesPastIt) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  PushPull(*host, 0, 0, 1);
  PushPull(*host, 1, 0, 1);
  PushPull(*host, 1, 1, 4);
  host->SetLiveWorkers(Workers({0}));
  std::vector<ShardHost::Worker> workers = Workers({0, 1});
  workers[1].incarnation = Incarnation(2000);
  host->SetLiveWorkers(workers);
  EXPECT_EQ(host->NextStep(WorkerId(1)), Step(2)) << "one slice has its update of step 1";
  const auto waits = PushPull(*host, 0, 1, 2);
  EXPECT_EQ(waits->first_value(), -4.0f) << "the mean with what the worker pushed when it lived";

  workers[1].first_step = Step(3);
  const auto later = PushPull(*host, 0, 2, 8);
  EXPECT_EQ(later->replies, 0);
  host->SetLiveWorkers(workers);
  ASSERT_EQ(later->replies, 1) << "the worker has no update of step 2";
  EXPECT_EQ(later->first_value(), -12.0f);
  ExchangeRequest first = Request(1, std::nullopt, Step(3));
  first.incarnation = Incarnation(2000);
  EXPECT_EQ(Send(*host, first)->first_value(), -12.0f);
}

TEST(ShardHostTest, AWorkerThatKnowsItsFirstStepBeforeTheServerDoesTriesAgain) {
  auto host = MakeHost(ConsistencyMode::kSsp, 4, /*num_workers=*/2);
  std::vector<ShardHost::Worker> workers = Workers({0, 1});
  workers[1].is_entering = true;
  host->SetLiveWorkers(workers);
  EXPECT_TRUE(absl::IsUnavailable(PushPull(*host, 1, 2, 1)->reply.status));
  workers[1].is_entering = false;
  workers[1].first_step = Step(2);
  host->SetLiveWorkers(workers);
  EXPECT_TRUE(PushPull(*host, 1, 2, 1)->reply.status.ok());
}

// The workers, the last of them a process that has taken another's place.
std::vector<ShardHost::Worker> WithReplacement(const std::vector<int>& ids, Step first_step) {
  std::vector<ShardHost::Worker> workers = Workers(ids);
  workers.back().incarnation = Incarnation(2000);
  workers.back().first_step = first_step;
  return workers;
}

TEST(ShardHostTest, APushThatIsInterruptedWhileAnotherProcessTakesItsPlaceIsRefused) {
  std::vector<absl::AnyInvocable<void()>> interrupted;
  auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/2,
                       [&](Incarnation sender, absl::AnyInvocable<void()> go_on) {
                         if (sender != IncarnationOf(1)) return go_on();
                         interrupted.push_back(std::move(go_on));
                       });
  const auto late = PushPull(*host, 1, 0, 100);
  ASSERT_EQ(interrupted.size(), 1u);
  host->SetLiveWorkers(WithReplacement({0, 1}, Step(0)));
  interrupted[0]();
  ASSERT_EQ(late->replies, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(late->reply.status)) << late->reply.status;
  EXPECT_EQ(PushPull(*host, 0, 0, 1)->first_value(), -1.0f) << "nothing of it was applied";
}

TEST(ShardHostTest, WhatWaitsOfAProcessIsRefusedWhenAnotherTakesItsPlace) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  const auto waits = PushPull(*host, 1, 0, 1);
  EXPECT_EQ(waits->replies, 0);
  host->SetLiveWorkers(WithReplacement({0, 1}, Step(1)));
  ASSERT_EQ(waits->replies, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(waits->reply.status)) << waits->reply.status;
}

TEST(ShardHostTest, AfterWholeStepsPushesWaitUntilTheLastOfThemIsComplete) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  host->SetSchedules(
      {Schedule({{Step(0), ConsistencyMode::kBsp}, {Step(1), ConsistencyMode::kAsync}})});
  // Worker 0 does not wait for the values between its pushes.
  EXPECT_EQ(Send(*host, Request(0, Step(0), std::nullopt, 2))->replies, 1);
  const auto ahead = PushPull(*host, 0, 1, 10);
  EXPECT_EQ(ahead->replies, 0) << "it lacks its own push of step 0";
  const auto pull = Send(*host, Request(1, std::nullopt, Step(0)));
  ASSERT_EQ(pull->replies, 1);
  EXPECT_EQ(pull->first_value(), 0.0f) << "isolation";
  const auto other = PushPull(*host, 1, 0, 4);
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
