#include "tests/transport/endpoint_conformance.h"

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/one_shot.h"
#include "common/exchange/request_parts.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "tests/transport/conformance_rig.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

// The worker's part in the sum of `count` float32. Element i is (i modulo 1000) * (worker + 1).
ExchangeRequest SumRequest(int worker, uint64_t number, size_t count) {
  const auto values = std::make_shared<std::vector<float>>(count);
  for (size_t i = 0; i < count; ++i) {
    (*values)[i] = static_cast<float>(i % 1000) * static_cast<float>(worker + 1);
  }
  Collective part;
  part.number = number;
  part.type = CollectiveType::kSum;
  part.shape = {1, count};
  part.values = Payload(absl::MakeConstSpan(*values), values);
  ExchangeRequest request = MakeTestRequest(worker, std::nullopt, std::nullopt);
  request.purpose = std::move(part);
  return request;
}

}  // namespace

TEST_P(EndpointConformanceTest, PushIsAppliedAndPullBringsTheValues) {
  Connected connected(GetParam(), ConsistencyMode::kBsp, /*num_workers=*/1, kSmall);
  Call call(*connected.endpoint, MakeTestRequest(0, Step(0), Step(1), 2.5f, kSmall),
            &connected.clock);
  const ExchangeReply reply = call.Wait();
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.version, 1);
  EXPECT_EQ(reply.min_step, Step(1));
  EXPECT_EQ(reply.epoch, Epoch(1));
  EXPECT_EQ(ToVector(reply.values), std::vector<float>(kSmall, -2.5f));
}

TEST_P(EndpointConformanceTest, PushAloneAndPullAloneWork) {
  Connected connected(GetParam(), ConsistencyMode::kAsync, /*num_workers=*/1, kSmall);
  Call push(*connected.endpoint, MakeTestRequest(0, Step(0), std::nullopt, 1.0f, kSmall),
            &connected.clock);
  const ExchangeReply pushed = push.Wait();
  EXPECT_TRUE(pushed.status.ok()) << pushed.status;
  EXPECT_TRUE(pushed.values.empty());
  Call pull(*connected.endpoint, MakeTestRequest(0, std::nullopt, Step(1)), &connected.clock);
  EXPECT_EQ(ToVector(pull.Wait().values), std::vector<float>(kSmall, -1.0f));
}

TEST_P(EndpointConformanceTest, LearningRatesAndEmptyPushesArrive) {
  Connected connected(GetParam(), ConsistencyMode::kAsync, /*num_workers=*/1, kSmall);
  ExchangeRequest slow = MakeTestRequest(0, Step(0), Step(1), 1.0f, kSmall);
  DenseStepOf(slow).push->rates.learning_rate = 0.25;
  Call push(*connected.endpoint, std::move(slow), &connected.clock);
  EXPECT_EQ(ToVector(push.Wait().values), std::vector<float>(kSmall, -0.25f));
  ExchangeRequest empty = MakeTestRequest(0, Step(1), Step(2));
  DenseStepOf(empty).push->gradient.reset();
  Call nothing(*connected.endpoint, std::move(empty), &connected.clock);
  const ExchangeReply reply = nothing.Wait();
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.version, 1u);
  EXPECT_EQ(reply.min_step, Step(2));
  EXPECT_EQ(ToVector(reply.values), std::vector<float>(kSmall, -0.25f));
}

TEST_P(EndpointConformanceTest, ALargeSliceArrivesWhole) {
  Connected connected(GetParam(), ConsistencyMode::kBsp, /*num_workers=*/1, kTestElements);
  ExchangeRequest request = MakeTestRequest(0, Step(0), Step(1));
  auto gradient = std::make_shared<std::vector<float>>(kTestElements);
  for (size_t i = 0; i < gradient->size(); ++i) (*gradient)[i] = static_cast<float>(i);
  DenseStepOf(request).push->gradient = {Payload(absl::MakeConstSpan(*gradient), gradient)};
  Call call(*connected.endpoint, std::move(request), &connected.clock);
  const std::vector<float> values = ToVector(call.Wait().values);
  ASSERT_EQ(values.size(), gradient->size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], -(*gradient)[i]) << i;
}

TEST_P(EndpointConformanceTest, RefusalsKeepCodeMessageAndEpoch) {
  Connected connected(GetParam(), ConsistencyMode::kBsp, /*num_workers=*/1, kSmall);
  Call wrong_length(*connected.endpoint, MakeTestRequest(0, Step(0), Step(1), 1.0f, kSmall + 1),
                    &connected.clock);
  const ExchangeReply reply = wrong_length.Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(reply.status));
  EXPECT_NE(reply.status.message().find("expected a gradient of 4000 bytes"),
            absl::string_view::npos)
      << reply.status;
  ExchangeRequest ahead = MakeTestRequest(0, Step(0), Step(1), 1.0f, kSmall);
  DenseStepOf(ahead).push->base_version = 7;
  Call too_new(*connected.endpoint, std::move(ahead), &connected.clock);
  const absl::Status too_new_status = too_new.Wait().status;
  EXPECT_TRUE(absl::IsInvalidArgument(too_new_status));
  EXPECT_NE(too_new_status.message().find("computed with version 0 or an older one, got 7"),
            absl::string_view::npos)
      << too_new_status;
  ExchangeRequest stale = MakeTestRequest(0, std::nullopt, Step(0));
  stale.sender.incarnation = Incarnation(1);
  Call stale_incarnation(*connected.endpoint, std::move(stale), &connected.clock);
  const ExchangeReply stale_reply = stale_incarnation.Wait();
  EXPECT_TRUE(absl::IsFailedPrecondition(stale_reply.status));
  EXPECT_EQ(stale_reply.epoch, Epoch(1));
}

TEST_P(EndpointConformanceTest, AParkedReplyComesWhenTheOtherWorkerHasPushed) {
  Connected connected(GetParam(), ConsistencyMode::kBsp, /*num_workers=*/2, kSmall);
  Call first(*connected.endpoint, MakeTestRequest(0, Step(0), Step(1), 1.0f, kSmall),
             &connected.clock);
  // A later exchange of the same connection overtakes the parked one.
  Call other(*connected.endpoint, MakeTestRequest(1, std::nullopt, Step(0)), &connected.clock);
  EXPECT_TRUE(other.Wait().status.ok());
  EXPECT_FALSE(first.is_answered());
  const std::unique_ptr<ParameterEndpoint> second_connection = connected.fixture->Connect();
  Call second(*second_connection, MakeTestRequest(1, Step(0), Step(1), 3.0f, kSmall),
              &connected.clock);
  EXPECT_EQ(ToVector(first.Wait().values), std::vector<float>(kSmall, -2.0f));
  EXPECT_EQ(ToVector(second.Wait().values), std::vector<float>(kSmall, -2.0f));
}

TEST_P(EndpointConformanceTest, APushIsSentOnceTheServerHasItThoughItsReplyIsParked) {
  for (const uint64_t elements : {uint64_t{1}, kSmall, kTestElements}) {
    Connected connected(GetParam(), ConsistencyMode::kBsp, /*num_workers=*/2, elements);
    Call push(*connected.endpoint, MakeTestRequest(0, Step(0), Step(1), 1.0f, elements),
              &connected.clock);
    push.WaitUntilDelivered();
    EXPECT_FALSE(push.is_answered());
    Call other(*connected.endpoint, MakeTestRequest(1, Step(0), Step(1), 3.0f, elements),
               &connected.clock);
    EXPECT_EQ(ToVector(push.Wait().values), std::vector<float>(elements, -2.0f));
    EXPECT_TRUE(other.Wait().status.ok());
  }
}

TEST_P(EndpointConformanceTest, TheSmallestCreditSufficesThoughRepliesAreParked) {
  constexpr int kWorkers = 12;
  Connected connected(GetParam(), ConsistencyMode::kBsp, kWorkers, kSmall);
  Scheduler scheduler(/*credit_bytes=*/1, std::make_unique<FifoQueue>());
  std::vector<std::unique_ptr<OneShot<ExchangeReply>>> replies;
  for (int worker = 0; worker < kWorkers; ++worker) {
    replies.push_back(std::make_unique<OneShot<ExchangeReply>>(&connected.clock));
    Transfer push;
    push.bytes = kSmall * sizeof(float);
    push.start = [&connected, worker,
                  reply = replies.back().get()](absl::AnyInvocable<void()> delivered) {
      connected.endpoint->Exchange(
          MakeTestRequest(worker, Step(0), Step(1), 12.0f, kSmall), std::move(delivered),
          [reply](ExchangeReply answer) { reply->Set(std::move(answer)); });
    };
    scheduler.Submit(std::move(push));
  }
  for (const auto& reply : replies) {
    EXPECT_EQ(ToVector(reply->Wait().values), std::vector<float>(kSmall, -12.0f));
  }
}

TEST_P(EndpointConformanceTest, ManyOpenExchangesOfManyThreadsAreEachAnsweredOnce) {
  const int num_workers = 4, num_steps = 50;
  Connected connected(GetParam(), ConsistencyMode::kAsync, num_workers, kSmall);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < num_workers; ++worker) {
    threads.emplace_back([&, worker] {
      for (int step = 0; step < num_steps; ++step) {
        Call push(*connected.endpoint,
                  MakeTestRequest(worker, Step(step), Step(step + 1), 1.0f, kSmall),
                  &connected.clock);
        Call pull(*connected.endpoint, MakeTestRequest(worker, std::nullopt, Step(0)),
                  &connected.clock);
        EXPECT_TRUE(push.Wait().status.ok());
        EXPECT_TRUE(pull.Wait().status.ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Call last(*connected.endpoint, MakeTestRequest(0, std::nullopt, Step(0)), &connected.clock);
  const ExchangeReply reply = last.Wait();
  EXPECT_EQ(reply.version, num_workers * num_steps) << "each push exactly once";
  EXPECT_EQ(ToVector(reply.values), std::vector<float>(kSmall, -1.0f * num_workers * num_steps));
}

TEST_P(EndpointConformanceTest, RepeatedPushIsAppliedOnce) {
  Connected connected(GetParam(), ConsistencyMode::kAsync, /*num_workers=*/1, kSmall);
  for (int i = 0; i < 3; ++i) {
    Call call(*connected.endpoint, MakeTestRequest(0, Step(0), Step(1), 1.0f, kSmall),
              &connected.clock);
    const ExchangeReply reply = call.Wait();
    EXPECT_EQ(reply.version, 1);
    EXPECT_EQ(reply.learning_rate_divisor, i == 0 ? 1 : 0) << "it was applied at first alone";
    EXPECT_EQ(ToVector(reply.values)[0], -1.0f);
  }
}

TEST_P(EndpointConformanceTest, ACollectiveOperationIsAnsweredOnceAllHaveSentTheirParts) {
  Connected connected(GetParam(), ConsistencyMode::kBsp, /*num_workers=*/2, kSmall);
  const std::unique_ptr<ParameterEndpoint> second_connection = connected.fixture->Connect();
  uint64_t number = 0;
  for (const size_t count : {size_t{1}, size_t{kSmall}, kMaxCollectiveBytes / sizeof(float)}) {
    Call first(*connected.endpoint, SumRequest(0, number, count), &connected.clock);
    first.WaitUntilDelivered();
    EXPECT_FALSE(first.is_answered());
    Call second(*second_connection, SumRequest(1, number, count), &connected.clock);
    std::vector<float> sum(count);
    for (size_t i = 0; i < count; ++i) sum[i] = 3 * static_cast<float>(i % 1000);
    for (Call* const call : {&first, &second}) {
      const ExchangeReply reply = call->Wait();
      EXPECT_TRUE(reply.status.ok()) << reply.status;
      EXPECT_TRUE(ToVector(reply.values) == sum) << count << " elements";
    }
    ++number;
  }
}

TEST_P(EndpointConformanceTest, ABroadcastTakesTheBytesOfOneWorkerAndABarrierTakesNone) {
  Connected connected(GetParam(), ConsistencyMode::kBsp, /*num_workers=*/2, kSmall);
  const std::unique_ptr<ParameterEndpoint> second_connection = connected.fixture->Connect();
  const auto both = [&](Collective part, std::vector<uint8_t> of_root) {
    ExchangeRequest other = MakeTestRequest(0, std::nullopt, std::nullopt);
    other.purpose = part;
    Call first(*connected.endpoint, std::move(other), &connected.clock);
    first.WaitUntilDelivered();
    EXPECT_FALSE(first.is_answered());
    part.values = PayloadOf(of_root);
    ExchangeRequest root = MakeTestRequest(1, std::nullopt, std::nullopt);
    root.purpose = std::move(part);
    Call second(*second_connection, std::move(root), &connected.clock);
    for (Call* const call : {&first, &second}) {
      const ExchangeReply reply = call->Wait();
      EXPECT_TRUE(reply.status.ok()) << reply.status;
      EXPECT_EQ(BytesIn(reply.values), of_root);
    }
  };
  Collective part;
  part.type = CollectiveType::kBroadcast;
  part.dtype = CollectiveDtype::kInt64;
  part.shape = {2, 1};
  part.root = WorkerId(1);
  both(part, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  part = Collective();
  part.number = 1;
  both(part, {});
}

TEST_P(EndpointConformanceTest, WhatIsOpenIsAnsweredWhenItAllEnds) {
  auto connected = std::make_unique<Connected>(GetParam(), ConsistencyMode::kBsp,
                                               /*num_workers=*/2, kSmall);
  RealClock clock;
  Call parked(*connected->endpoint, MakeTestRequest(0, Step(0), Step(1), 1.0f, kSmall), &clock);
  Call later(*connected->endpoint, MakeTestRequest(1, std::nullopt, Step(0)), &clock);
  EXPECT_TRUE(later.Wait().status.ok());
  EXPECT_FALSE(parked.is_answered());
  connected.reset();
  EXPECT_FALSE(parked.Wait().status.ok());
}

}  // namespace capstan
