// Hosts whose initial values come from worker 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
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

class InitialValuesTest : public testing::Test {
 protected:
  static std::unique_ptr<ShardHost> Create(ConsistencyMode mode = ConsistencyMode::kBsp,
                                           const ShardHost::Source& source = {}) {
    ShardHost::Options options = HostOptions(mode);
    options.tables[0].initial_from_worker = true;
    auto host = ShardHost::Create(std::move(options), source).value();
    host->SetLiveWorkers(Workers({0, 1}));
    return host;
  }
  static ExchangeRequest Initial(float value, size_t size = 16) {
    ExchangeRequest request = Request(/*worker=*/0, std::nullopt, std::nullopt);
    const auto values = std::make_shared<std::vector<float>>(size, value);
    request.purpose = InitialValues{Payload(absl::MakeConstSpan(*values), values)};
    return request;
  }
  static std::shared_ptr<Result> Pull(ShardHost& host, int worker) {
    return Send(host, Request(worker, std::nullopt, Step(0)));
  }
  static void ExpectLost(const Result& result) {
    ASSERT_EQ(result.replies, 1);
    EXPECT_EQ(result.reply.status,
              absl::FailedPreconditionError(
                  "worker 0 was lost before it had sent the initial values of slice 0 of table w; "
                  "start the job again"));
  }
};

TEST_F(InitialValuesTest, PullsWaitForThemInEveryMode) {
  for (const ConsistencyMode mode :
       {ConsistencyMode::kBsp, ConsistencyMode::kSsp, ConsistencyMode::kAsync}) {
    const auto host = Create(mode);
    const auto first = Pull(*host, 0), second = Pull(*host, 1);
    EXPECT_EQ(first->replies + second->replies, 0);
    const auto sent = Send(*host, Initial(7));
    ASSERT_EQ(sent->replies, 1);
    EXPECT_TRUE(sent->reply.status.ok()) << sent->reply.status;
    for (const auto& pull : {first, second}) {
      ASSERT_EQ(pull->replies, 1);
      EXPECT_EQ(pull->first_value(), 7.0f);
      EXPECT_EQ(pull->reply.version, 0u);
    }
  }
}

TEST_F(InitialValuesTest, NoPushComesBeforeThem) {
  const auto host = Create(ConsistencyMode::kAsync);
  const auto early = PushPull(*host, 1, 0, 1);
  ASSERT_EQ(early->replies, 1);
  EXPECT_EQ(early->reply.status,
            absl::FailedPreconditionError("slice 0 of table w: expected no push before the initial "
                                          "values of worker 0; pull the values first"));
  Send(*host, Initial(7));
  EXPECT_EQ(PushPull(*host, 1, 0, 1)->first_value(), 6.0f);
}

TEST_F(InitialValuesTest, TheyAreTakenOnce) {
  const auto host = Create(ConsistencyMode::kAsync);
  Send(*host, Initial(7));
  EXPECT_EQ(PushPull(*host, 1, 0, 1)->first_value(), 6.0f);
  const auto again = Send(*host, Initial(7));
  ASSERT_EQ(again->replies, 1);
  EXPECT_TRUE(again->reply.status.ok()) << again->reply.status;
  EXPECT_EQ(Send(*host, Request(1, std::nullopt, Step(1)))->first_value(), 6.0f);
  EXPECT_EQ(host->counts().initial_values, 2);
}

TEST_F(InitialValuesTest, WhatDoesNotFitIsRefusedAndThePullsGoOnWaiting) {
  const auto host = Create();
  const auto pull = Pull(*host, 1);
  const auto expect = [&host](ExchangeRequest request, const std::string& text) {
    const auto result = Send(*host, std::move(request));
    ASSERT_EQ(result->replies, 1);
    EXPECT_TRUE(absl::IsInvalidArgument(result->reply.status)) << result->reply.status;
    EXPECT_THAT(std::string(result->reply.status.message()),
                HasSubstr("slice 0 of table w: " + text));
  };
  expect(Initial(7, /*size=*/15), "expected initial values of 64 bytes (16 float32), got 60");
  expect(Initial(std::numeric_limits<float>::infinity()), "the initial values hold a NaN");
  ExchangeRequest of_another = Initial(7);
  of_another.sender.worker = WorkerId(1);
  of_another.sender.incarnation = IncarnationOf(1);
  expect(std::move(of_another),
         "expected initial values from worker 0 only, got some from worker 1");
  EXPECT_EQ(pull->replies, 0);
  Send(*host, Initial(7));
  EXPECT_EQ(pull->first_value(), 7.0f);
}

TEST_F(InitialValuesTest, AFileTakesTheirPlace) {
  ShardHost::Source source;
  source.initial = [](TableId, uint64_t, SliceState::Memory& memory) {
    std::fill(memory.values.span().begin(), memory.values.span().end(), 3.0f);
    return absl::OkStatus();
  };
  const auto host = Create(ConsistencyMode::kBsp, source);
  EXPECT_EQ(Pull(*host, 1)->first_value(), 3.0f);
  EXPECT_TRUE(Send(*host, Initial(7))->reply.status.ok());
  EXPECT_EQ(Pull(*host, 0)->first_value(), 3.0f);
}

TEST_F(InitialValuesTest, IfWorker0IsLostBeforePullsGetAnError) {
  const auto host = Create();
  const auto parked = Pull(*host, 1);
  host->SetLiveWorkers(Workers({1}));
  ExpectLost(*parked);
  ExpectLost(*Pull(*host, 1));
}

TEST_F(InitialValuesTest, AServerThatHearsOfWorker0WhenItIsLostDoesNotWaitForIt) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.tables[0].initial_from_worker = true;
  const auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({1}));
  ExpectLost(*Pull(*host, 1));
}

TEST_F(InitialValuesTest, AReplacementOfWorker0MaySendThem) {
  const auto host = Create();
  const auto parked = Pull(*host, 1);
  std::vector<ShardHost::Worker> workers = Workers({0, 1});
  workers[0].incarnation = Incarnation(5);
  host->SetLiveWorkers(workers);
  EXPECT_EQ(parked->replies, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(Send(*host, Initial(7))->reply.status)) << "the lost one";
  ExchangeRequest initial = Initial(8);
  initial.sender.incarnation = Incarnation(5);
  EXPECT_TRUE(Send(*host, std::move(initial))->reply.status.ok());
  EXPECT_EQ(parked->first_value(), 8.0f);
}

TEST_F(InitialValuesTest, OnceTheyAreThereWorker0CanBeLost) {
  const auto host = Create();
  Send(*host, Initial(7));
  host->SetLiveWorkers(Workers({1}));
  EXPECT_EQ(Pull(*host, 1)->first_value(), 7.0f);
}

TEST_F(InitialValuesTest, NoCheckpointIsCutBeforeThem) {
  for (const ConsistencyMode mode : {ConsistencyMode::kBsp, ConsistencyMode::kAsync}) {
    const auto host = Create(mode);
    const auto parked = Pull(*host, 1);
    Cuts cuts;
    host->CutAt(Step(0), cuts.Adder());
    EXPECT_FALSE(cuts.first().has_value());
    Send(*host, Initial(7));
    ASSERT_TRUE(cuts.first().has_value());
    EXPECT_THAT(Floats(cuts.first()->values), Each(7.0f));
    EXPECT_EQ(parked->first_value(), 7.0f);
  }
}

}  // namespace
}  // namespace capstan
