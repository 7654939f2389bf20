#include "worker/client/parameter_client.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/routing/server_address.h"

namespace capstan {
namespace {

// Everything that the endpoints of one client were asked, with the server that was asked.
struct Asked {
  ServerId server;
  ExchangeRequest request;
  ParameterEndpoint::ReplyCallback done;
};

class FakeEndpoint : public ParameterEndpoint {
 public:
  FakeEndpoint(ServerId server, std::vector<Asked>* asked) : server_(server), asked_(asked) {}
  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override {
    sent();
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
  routing.server_address = {{"a:1"}, {"b:2"}};
  return routing;
}

class ParameterClientTest : public testing::Test {
 public:
  ParameterClientTest() {
    ParameterClient::Options options;
    options.job = 5;
    options.clock = &clock_;
    options.worker = WorkerId(2);
    options.incarnation = Incarnation(77);
    // One table of two slices, one in each shard.
    client_ = std::make_unique<ParameterClient>(
        options, ShardMap({32}, /*slice_bytes=*/64, /*shard_count=*/2), Routing(1, 0),
        [this](ServerId server, const ServerAddress&) {
          return std::make_unique<FakeEndpoint>(server, &asked_);
        });
  }
  void Pull(uint32_t slice) {
    ParameterClient* const client = ending_ != nullptr ? ending_ : client_.get();
    client->Exchange(
        {TableId(0), SliceIndex(slice)}, std::nullopt, Payload(), Step(3),
        /*base_version=*/std::nullopt, /*destination=*/{}, [this] { ++sent_; },
        [this](ExchangeReply reply) { replies_.push_back(std::move(reply)); });
  }
  void Answer(size_t index, ExchangeReply reply) {
    // The answer may ask again, which moves what has been asked.
    ParameterEndpoint::ReplyCallback done = std::move(asked_[index].done);
    done(std::move(reply));
  }

  FakeClock clock_;
  std::vector<Asked> asked_;
  std::vector<ExchangeReply> replies_;
  int sent_ = 0;
  std::unique_ptr<ParameterClient> client_;
  ParameterClient* ending_ = nullptr;  // while its destructor runs
};

TEST_F(ParameterClientTest, AsksTheServerOfTheShardAndSaysWhoAsks) {
  Pull(0);
  Pull(1);
  ASSERT_EQ(asked_.size(), 2);
  EXPECT_EQ(asked_[0].server, ServerId(0));
  EXPECT_EQ(asked_[1].server, ServerId(1));
  const ExchangeRequest& request = asked_[0].request;
  EXPECT_EQ(request.job, 5);
  EXPECT_EQ(request.worker, WorkerId(2));
  EXPECT_EQ(request.incarnation, Incarnation(77));
  EXPECT_EQ(request.epoch, Epoch(1));
  EXPECT_EQ(request.pull_step, Step(3));
}

TEST_F(ParameterClientTest, SendsAgainWhenTheShardHasMoved) {
  Pull(0);
  Answer(0, ErrorReply(absl::FailedPreconditionError("stale epoch"), Epoch(2)));
  EXPECT_EQ(asked_.size(), 1) << "waits for the routing table";
  client_->UpdateRouting(Routing(2, /*server_of_first_shard=*/1));
  ASSERT_EQ(asked_.size(), 2);
  EXPECT_EQ(asked_[1].server, ServerId(1));
  EXPECT_EQ(asked_[1].request.epoch, Epoch(2));
  Answer(1, ExchangeReply());
  ASSERT_EQ(replies_.size(), 1);
  EXPECT_TRUE(replies_[0].status.ok());
  EXPECT_EQ(sent_, 1);
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
  // Like a scheduler that starts the next transfer when an endpoint answers at its end.
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

}  // namespace
}  // namespace capstan
