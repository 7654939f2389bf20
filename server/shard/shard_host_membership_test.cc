// Workers join, die, come back and are replaced, seen by the shards of a server.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

TEST(ShardHostMembershipTest, BspGoesOnWithoutAWorkerThatDied) {
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

TEST(ShardHostMembershipTest, SspJoinerEntersAtMinStep) {
  auto host = MakeHost(ConsistencyMode::kSsp, /*staleness=*/0, /*num_workers=*/1);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(PushPull(*host, 0, step, 1)->replies, 1);
  host->SetLiveWorkers(Workers({0, 1}));
  const auto joiner = Send(*host, Request(1, std::nullopt, Step(4)));
  ASSERT_EQ(joiner->replies, 1);
  EXPECT_EQ(joiner->reply.min_step, Step(4));
  EXPECT_EQ(PushPull(*host, 0, 4, 1)->replies, 0) << "now it waits for the joiner";
}

TEST(ShardHostMembershipTest, SspGoesOnWithoutAWorkerThatDied) {
  auto host = MakeHost(ConsistencyMode::kSsp, /*staleness=*/0, /*num_workers=*/2);
  const auto parked = PushPull(*host, 0, 0, 1);
  EXPECT_EQ(parked->replies, 0);
  host->SetLiveWorkers(Workers({0}));
  ASSERT_EQ(parked->replies, 1);
  EXPECT_TRUE(parked->reply.status.ok());
  EXPECT_EQ(PushPull(*host, 0, 1, 1)->replies, 1);
}

TEST(ShardHostMembershipTest, AWorkerThatComesBackBeginsBeyondItsUpdatesAndNobodyMovesPastIt) {
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
  first.sender.incarnation = Incarnation(2000);
  EXPECT_EQ(Send(*host, first)->first_value(), -12.0f);
}

TEST(ShardHostMembershipTest, AWorkerThatKnowsItsFirstStepBeforeTheServerDoesTriesAgain) {
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

// The workers. The last one is a new process in another's place.
std::vector<ShardHost::Worker> WithReplacement(const std::vector<int>& ids, Step first_step) {
  std::vector<ShardHost::Worker> workers = Workers(ids);
  workers.back().incarnation = Incarnation(2000);
  workers.back().first_step = first_step;
  return workers;
}

TEST(ShardHostMembershipTest, APushThatIsInterruptedWhileAnotherProcessTakesItsPlaceIsRefused) {
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

TEST(ShardHostMembershipTest, WhatWaitsOfAProcessIsRefusedWhenAnotherTakesItsPlace) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  const auto waits = PushPull(*host, 1, 0, 1);
  EXPECT_EQ(waits->replies, 0);
  host->SetLiveWorkers(WithReplacement({0, 1}, Step(1)));
  ASSERT_EQ(waits->replies, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(waits->reply.status)) << waits->reply.status;
}

// A host of two workers that keeps the open step.
std::unique_ptr<ShardHost> HostThatHoldsPlaces() {
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.keeps_open_step = true;
  std::unique_ptr<ShardHost> host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0, 1}));
  return host;
}

// Both workers; the place of worker 1 is held.
std::vector<ShardHost::Worker> WithHeldPlace() {
  std::vector<ShardHost::Worker> workers = Workers({0, 1});
  workers.back().is_lost = true;
  return workers;
}

// As PushPull, by the process that has taken worker 1's place.
std::shared_ptr<Result> PushPullOfReplacement(ShardHost& host, int64_t step, float gradient) {
  ExchangeRequest request = Request(1, Step(step), Step(step + 1), gradient);
  request.sender.incarnation = Incarnation(2000);
  return Send(host, std::move(request));
}

// An empty push to the second slice, which then has the step of the worker.
std::shared_ptr<Result> PushNothingToSecondSlice(ShardHost& host, int worker, int64_t step) {
  ExchangeRequest request = Request(worker, Step(step), std::nullopt);
  request.slice.slice = SliceIndex(1);
  request.purpose = DenseStep{StepPush{Step(step)}, std::nullopt};
  return Send(host, std::move(request));
}

TEST(ShardHostMembershipTest, WhileAPlaceIsHeldTheOthersWaitAndTheLostProcessIsRefused) {
  auto host = HostThatHoldsPlaces();
  const auto waits = PushPull(*host, 0, 0, 3);
  host->SetLiveWorkers(WithHeldPlace());
  EXPECT_EQ(waits->replies, 0);
  const auto lost = PushPull(*host, 1, 0, 100);
  EXPECT_TRUE(absl::IsFailedPrecondition(lost->reply.status)) << lost->reply.status;
  EXPECT_EQ(
      lost->reply.status.message(),
      "worker 1 was declared dead, and its place is held for another process; this one must stop");
  EXPECT_EQ(waits->replies, 0);
  host->SetLiveWorkers(WithReplacement({0, 1}, Step(0)));
  const auto replacement = PushPullOfReplacement(*host, 0, 5);
  ASSERT_EQ(waits->replies, 1);
  EXPECT_EQ(waits->first_value(), -4.0f);
  EXPECT_EQ(replacement->first_value(), -4.0f);
}

TEST(ShardHostMembershipTest, WhatALostProcessHadPushedStaysAndIsNotTakenAgain) {
  auto host = HostThatHoldsPlaces();
  PushPull(*host, 1, 0, 5);
  PushPull(*host, 0, 0, 3);
  PushPull(*host, 1, 1, 7);  // waits for worker 0
  PushNothingToSecondSlice(*host, 0, 0);
  PushNothingToSecondSlice(*host, 1, 0);
  EXPECT_EQ(host->OpenStep(WorkerId(1)), Step(1)) << "the second slice lacks it";
  EXPECT_EQ(host->NextStep(WorkerId(1)), Step(2));
  host->SetLiveWorkers(WithHeldPlace());
  const auto next = PushPull(*host, 0, 1, 1);
  EXPECT_EQ(next->first_value(), -8.0f) << "here the step is complete";

  std::vector<ShardHost::Worker> workers = WithReplacement({0, 1}, Step(0));
  workers.back().is_entering = true;
  host->SetLiveWorkers(workers);
  EXPECT_EQ(host->OpenStep(WorkerId(1)), Step(1));
  host->SetLiveWorkers(WithReplacement({0, 1}, Step(1)));
  ExchangeRequest pull = Request(1, std::nullopt, Step(1));
  pull.sender.incarnation = Incarnation(2000);
  EXPECT_EQ(Send(*host, pull)->first_value(), -4.0f) << "the values with which the step began";
  const auto again = PushPullOfReplacement(*host, 1, 7);
  EXPECT_EQ(again->first_value(), -8.0f);
  EXPECT_EQ(again->reply.version, 2u);
  EXPECT_EQ(host->counts().duplicate_pushes, 1);
  EXPECT_EQ(PushPullOfReplacement(*host, 2, 4)->replies, 0);
  EXPECT_EQ(PushPull(*host, 0, 2, 2)->first_value(), -11.0f);
}

TEST(ShardHostMembershipTest, NoSliceLacksAStepOfAServerWithoutSlices) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.shards.clear();
  auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0, 1}));
  EXPECT_EQ(host->OpenStep(WorkerId(1)), kLargestStep);
}

}  // namespace
}  // namespace capstan
