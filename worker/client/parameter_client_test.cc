#include "worker/client/parameter_client.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/exchange/request_parts.h"
#include "common/routing/routing_table.h"

namespace capstan {
namespace {

// All requests to the endpoints of one client, with their servers.
struct Asked {
  ServerId server;
  ExchangeRequest request;
  ParameterEndpoint::ReplyCallback done;
};

class FakeEndpoint : public ParameterEndpoint {
 public:
  FakeEndpoint(ServerId server, std::vector<Asked>* asked) : server_(server), asked_(asked) {}
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    asked_->push_back({server_, std::move(request), std::move(done)});
  }

 private:
  const ServerId server_;
  std::vector<Asked>* const asked_;
};

RoutingTable Routing(int epoch, int server_of_first_shard) {
  RoutingTable routing;
  routing.epoch = Epoch(epoch);
  routing.server_of_shard = {ServerId(server_of_first_shard), ServerId(1)};
  routing.servers = {{{"a:1"}}, {{"b:2"}}};
  return routing;
}

class ParameterClientTest : public testing::Test {
 public:
  ParameterClientTest() {
    ParameterClient::Options options;
    options.clock = &clock_;
    // One table of two slices, one in each shard.
    client_ = std::make_unique<ParameterClient>(
        options, ShardMap({32}, /*slice_bytes=*/64, /*shard_count=*/2), Routing(1, 0),
        [this](ServerId server, const ServerAddress&) {
          return std::make_unique<FakeEndpoint>(server, &asked_);
        });
  }
  void Pull(uint32_t slice) {
    ParameterClient* const client = ending_ != nullptr ? ending_ : client_.get();
    ExchangeRequest request;
    request.slice = {TableId(0), SliceIndex(slice)};
    request.purpose = MakeDenseStep(std::nullopt, Step(3));
    client->Exchange(
        std::move(request), [this] { ++delivered_; },
        [this](ExchangeReply reply) { replies_.push_back(std::move(reply)); });
  }
  void Answer(size_t index, ExchangeReply reply) {
    // The answer may start another exchange, and the vector of requests may move.
    ParameterEndpoint::ReplyCallback done = std::move(asked_[index].done);
    done(std::move(reply));
  }

  FakeClock clock_;
  std::vector<Asked> asked_;
  std::vector<ExchangeReply> replies_;
  int delivered_ = 0;
  std::unique_ptr<ParameterClient> client_;
  ParameterClient* ending_ = nullptr;  // while its destructor runs
};

TEST_F(ParameterClientTest, AsksTheServerOfTheShardWithTheCurrentEpoch) {
  Pull(0);
  Pull(1);
  ASSERT_EQ(asked_.size(), 2);
  EXPECT_EQ(asked_[0].server, ServerId(0));
  EXPECT_EQ(asked_[1].server, ServerId(1));
  const ExchangeRequest& request = asked_[0].request;
  EXPECT_EQ(request.epoch, Epoch(1));
  EXPECT_EQ(PullStepOf(request), Step(3));
}

TEST_F(ParameterClientTest, SendsAgainWhenTheShardHasMoved) {
  Pull(0);
  Answer(0, ErrorReply(absl::FailedPreconditionError("stale epoch"), Epoch(2)));
  EXPECT_EQ(asked_.size(), 1) << "waits for the routing table";
  client_->UpdateRouting(Routing(2, /*server_of_first_shard=*/1));
  ASSERT_EQ(asked_.size(), 2);
  EXPECT_EQ(asked_[1].server, ServerId(1));
  EXPECT_EQ(asked_[1].request.epoch, Epoch(2));
  EXPECT_EQ(client_->retries(), 1);
  Answer(1, ExchangeReply());
  ASSERT_EQ(replies_.size(), 1);
  EXPECT_TRUE(replies_[0].status.ok());
  EXPECT_EQ(delivered_, 1);
}

TEST_F(ParameterClientTest, SendsAgainAtOnceWhenItKnowsTheNewRoutingAlready) {
  Pull(0);
  client_->UpdateRouting(Routing(2, /*server_of_first_shard=*/1));
  Answer(0, ErrorReply(absl::FailedPreconditionError("stale epoch"), Epoch(2)));
  ASSERT_EQ(asked_.size(), 2);
  EXPECT_EQ(asked_[1].server, ServerId(1));
}

TEST_F(ParameterClientTest, PassesOnOtherErrors) {
  Pull(0);
  Answer(0, ErrorReply(absl::FailedPreconditionError("stale incarnation"), Epoch(1)));
  ASSERT_EQ(replies_.size(), 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(replies_[0].status));
}

TEST_F(ParameterClientTest, DestructionAnswersWhatWaitsForRouting) {
  Pull(0);
  Answer(0, ErrorReply(absl::FailedPreconditionError("stale epoch"), Epoch(2)));
  client_.reset();
  ASSERT_EQ(replies_.size(), 1);
  EXPECT_TRUE(absl::IsCancelled(replies_[0].status));
}

TEST_F(ParameterClientTest, WhatIsSentWhileItEndsIsAnsweredWithoutAConnection) {
  // Like a scheduler: starts the next transfer on the answer of an endpoint at its end.
  class AnswersAtTheEnd : public FakeEndpoint {
   public:
    AnswersAtTheEnd(ServerId server, std::vector<Asked>* asked, ParameterClientTest* test)
        : FakeEndpoint(server, asked), test_(test) {}
    ~AnswersAtTheEnd() override { test_->Pull(0); }

   private:
    ParameterClientTest* const test_;
  };
  ParameterClient::Options options;
  options.clock = &clock_;
  client_ = std::make_unique<ParameterClient>(
      options, ShardMap({32}, /*slice_bytes=*/64, /*shard_count=*/2), Routing(1, 0),
      [this](ServerId server, const ServerAddress&) {
        return std::make_unique<AnswersAtTheEnd>(server, &asked_, this);
      });
  ending_ = client_.get();
  client_ = nullptr;
  EXPECT_TRUE(asked_.empty());
  ASSERT_EQ(replies_.size(), 2);
  EXPECT_TRUE(absl::IsCancelled(replies_[0].status));
}

TEST_F(ParameterClientTest, OlderRoutingIsIgnored) {
  client_->UpdateRouting(Routing(3, /*server_of_first_shard=*/1));
  client_->UpdateRouting(Routing(2, /*server_of_first_shard=*/0));
  Pull(0);
  EXPECT_EQ(asked_[0].server, ServerId(1));
}

// Answers each exchange with the next scripted status; keeps it open when the script is empty.
class ScriptedEndpoint : public ParameterEndpoint {
 public:
  struct Script {
    std::deque<absl::Status> statuses;
    int calls = 0;
    ReplyCallback open;
  };
  explicit ScriptedEndpoint(Script* script) : script_(script) {}
  ~ScriptedEndpoint() override {
    if (script_->open) script_->open(ErrorReply(absl::UnavailableError("destroyed")));
  }

  void Exchange(ExchangeRequest&&, DeliveredCallback delivered, ReplyCallback done) override {
    ++script_->calls;
    delivered();
    if (script_->statuses.empty()) {
      script_->open = std::move(done);
      return;
    }
    const absl::Status status = script_->statuses.front();
    script_->statuses.pop_front();
    done(ErrorReply(status));
  }

 private:
  Script* const script_;
};

// A client of one server.
class RetryTest : public testing::Test {
 protected:
  RetryTest() {
    ParameterClient::Options options;
    options.clock = &clock_;
    options.rpc_deadline = absl::Seconds(5);
    options.coordinator_last_away = [this] { return coordinator_last_away_; };
    RoutingTable routing;
    routing.epoch = Epoch(1);
    routing.server_of_shard = {ServerId(0)};
    routing.servers = {{{"127.0.0.1:4000"}}};
    client_ = std::make_unique<ParameterClient>(
        options, ShardMap({1}, /*slice_bytes=*/4, /*shard_count=*/1), routing,
        [this](ServerId, const ServerAddress&) {
          return std::make_unique<ScriptedEndpoint>(&script_);
        });
  }
  void Exchange() {
    client_->Exchange(
        {}, [this] { ++delivered_; },
        [this](ExchangeReply reply) {
          EXPECT_FALSE(result_.has_value()) << "answered twice";
          result_ = std::move(reply.status);
        });
  }

  FakeClock clock_;
  absl::Time coordinator_last_away_ = absl::InfinitePast();
  ScriptedEndpoint::Script script_;
  std::unique_ptr<ParameterClient> client_;
  int delivered_ = 0;
  std::optional<absl::Status> result_;
};

TEST_F(ParameterClientTest, AServerHasItsOwnDeadlineAfterTheShardHasMoved) {
  Pull(0);
  const auto fail = [this] {
    Answer(asked_.size() - 1, ErrorReply(absl::UnavailableError("lost")));
  };
  fail();
  clock_.Advance(absl::Seconds(29));
  fail();  // The deadline is 30 s.
  client_->UpdateRouting(Routing(2, /*server_of_first_shard=*/1));
  clock_.Advance(absl::Seconds(2));
  ASSERT_EQ(asked_.back().server, ServerId(1));
  fail();
  EXPECT_TRUE(replies_.empty()) << "the other server has failed once";
  clock_.Advance(absl::Seconds(2));
  Answer(asked_.size() - 1, ExchangeReply());
  ASSERT_EQ(replies_.size(), 1);
  EXPECT_TRUE(replies_[0].status.ok());
}

TEST_F(RetryTest, SendsAgainUntilTheAnswerComes) {
  script_.statuses = {absl::UnavailableError("lost"), absl::ResourceExhaustedError("full"),
                      absl::OkStatus()};
  Exchange();
  EXPECT_EQ(script_.calls, 1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(script_.calls, 3);
  EXPECT_EQ(delivered_, 1);
  EXPECT_TRUE(result_->ok());
}

TEST_F(RetryTest, DoesNotRepeatWhatTheServerRefused) {
  script_.statuses = {absl::InvalidArgumentError("wrong length")};
  Exchange();
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(script_.calls, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(*result_));
}

TEST_F(RetryTest, GivesUpAfterTheDeadlineAndNamesTheServer) {
  for (int i = 0; i < 1000; ++i) script_.statuses.push_back(absl::UnavailableError("refused"));
  Exchange();
  clock_.Advance(absl::Seconds(4));
  EXPECT_FALSE(result_.has_value());
  clock_.Advance(absl::Seconds(3));
  ASSERT_TRUE(result_.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*result_));
  EXPECT_NE(result_->message().find("server 0 (127.0.0.1:4000) has been unreachable for 5s"),
            absl::string_view::npos)
      << *result_;
}

TEST_F(RetryTest, WhileTheCoordinatorIsAwayNoServerIsGivenUp) {
  for (int i = 0; i < 1000; ++i) script_.statuses.push_back(absl::UnavailableError("refused"));
  Exchange();
  clock_.Advance(absl::Seconds(4));
  for (int i = 0; i < 600; ++i) {
    coordinator_last_away_ = clock_.Now();
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_FALSE(result_.has_value());
  clock_.Advance(absl::Seconds(3));
  EXPECT_FALSE(result_.has_value()) << "the coordinator is back for 4 s";
  clock_.Advance(absl::Seconds(3));
  ASSERT_TRUE(result_.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*result_));
}

TEST_F(RetryTest, AnEarlierAbsenceOfTheCoordinatorDoesNotCount) {
  for (int i = 0; i < 1000; ++i) script_.statuses.push_back(absl::UnavailableError("refused"));
  coordinator_last_away_ = clock_.Now();
  clock_.Advance(absl::Seconds(60));
  Exchange();
  clock_.Advance(absl::Seconds(7));
  EXPECT_TRUE(result_.has_value());
}

TEST_F(RetryTest, WaitingForOtherWorkersDoesNotCountAsUnreachable) {
  Exchange();
  clock_.Advance(absl::Hours(1));
  EXPECT_FALSE(result_.has_value());
  // The connection breaks after an hour, twice, and comes back each time.
  for (int i = 0; i < 2; ++i) {
    std::exchange(script_.open, nullptr)(ErrorReply(absl::UnavailableError("broke")));
    clock_.Advance(absl::Hours(1));
    EXPECT_FALSE(result_.has_value());
  }
  std::exchange(script_.open, nullptr)(ExchangeReply());
  EXPECT_TRUE(result_->ok());
}

TEST_F(RetryTest, DestructionAnswersWhatWaitsToBeSentAgain) {
  script_.statuses = {absl::UnavailableError("lost")};
  Exchange();
  client_.reset();
  EXPECT_TRUE(absl::IsCancelled(*result_));
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(script_.calls, 1);
}

TEST_F(RetryTest, DestructionAnswersWhatIsOpen) {
  Exchange();
  client_.reset();
  EXPECT_TRUE(absl::IsCancelled(*result_));
}

}  // namespace
}  // namespace capstan
