// ParameterClient while servers die and others take their places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock.h"
#include "common/routing/routing_table.h"
#include "worker/client/parameter_client.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// What a test sees of one connection. Outlives it.
struct Connection {
  std::string address;
  std::vector<Epoch> sent;  // the epochs of all requests
  std::vector<ParameterEndpoint::ReplyCallback> open;
  bool is_ended = false;
  std::function<void()> in_exchange;  // runs within the next call of Exchange

  void Answer(const absl::Status& status) {
    std::vector<ParameterEndpoint::ReplyCallback> answered;
    answered.swap(open);
    for (auto& done : answered) done(ErrorReply(status));
  }
};

class FakeConnection : public ParameterEndpoint {
 public:
  explicit FakeConnection(Connection* seen) : seen_(*seen) {}
  ~FakeConnection() override {
    seen_.is_ended = true;
    seen_.Answer(absl::UnavailableError("the connection has ended"));
  }
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    EXPECT_FALSE(seen_.is_ended) << seen_.address;
    delivered();
    seen_.sent.push_back(request.epoch);
    seen_.open.push_back(std::move(done));
    if (seen_.in_exchange) std::exchange(seen_.in_exchange, nullptr)();
  }

 private:
  Connection& seen_;
};

constexpr bool kIsDead = false;

// Slice 0 is in shard 0, slice 1 in shard 1. At first each of two servers has one shard.
class ParameterClientFailOverTest : public testing::Test {
 protected:
  ParameterClientFailOverTest() {
    ParameterClient::Options options;
    options.clock = &clock_;
    client_ = std::make_unique<ParameterClient>(
        options, ShardMap({32}, /*slice_bytes=*/64, /*shard_count=*/2),
        Routing(1, {0, 1}, Process(10), Process(20)),
        [this](ServerId server, const ServerAddress& address) {
          connections_.push_back(std::make_unique<Connection>());
          connections_.back()->address = absl::StrCat(server.value(), "@", address.grpc);
          return std::make_unique<FakeConnection>(connections_.back().get());
        });
  }

  static RoutedServer Process(uint64_t incarnation, bool is_live = true) {
    return {{absl::StrCat("host:", incarnation)}, Incarnation(incarnation), is_live};
  }
  static RoutingTable Routing(uint64_t epoch, const std::vector<uint32_t>& server_of_shard,
                              const RoutedServer& server0, const RoutedServer& server1) {
    RoutingTable routing;
    routing.epoch = Epoch(epoch);
    routing.version = 100 + epoch;
    for (const uint32_t server : server_of_shard) routing.server_of_shard.emplace_back(server);
    routing.servers = {server0, server1};
    return routing;
  }
  // Server 0 is dead, and server 1 has all shards.
  void KillServer0() {
    client_->UpdateRouting(Routing(2, {1, 1}, Process(10, kIsDead), Process(20)));
  }
  void Exchange(uint32_t slice) {
    ExchangeRequest request;
    request.slice = {TableId(0), SliceIndex(slice)};
    client_->Exchange(
        std::move(request), [this] { ++delivered_; },
        [this](const ExchangeReply& reply) { replies_.push_back(reply.status); });
  }
  void RunTimers() { clock_.Advance(absl::ZeroDuration()); }
  Connection& connection(size_t index) { return *connections_.at(index); }

  FakeClock clock_;
  std::vector<std::unique_ptr<Connection>> connections_;  // in the order of their begin
  std::vector<absl::Status> replies_;
  int delivered_ = 0;
  std::unique_ptr<ParameterClient> client_;
};

TEST_F(ParameterClientFailOverTest, WhatIsOpenIsSentToTheNewPrimaryOnceItsConnectionHasEnded) {
  Exchange(0);
  KillServer0();
  EXPECT_FALSE(connection(0).is_ended) << "the routing table's thread does not wait for the end";
  EXPECT_TRUE(connection(1).sent.empty()) << "it is still open at server 0";
  RunTimers();
  EXPECT_TRUE(connection(0).is_ended);
  EXPECT_EQ(connection(1).sent, std::vector<Epoch>{Epoch(2)});
  EXPECT_TRUE(replies_.empty());
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(connection(1).sent.size(), 1u);
  connection(1).Answer(absl::OkStatus());
  EXPECT_EQ(replies_, std::vector<absl::Status>{absl::OkStatus()});
  EXPECT_EQ(delivered_, 1);
  EXPECT_EQ(client_->retries(), 1);
}

TEST_F(ParameterClientFailOverTest, WhatIsOpenAtAnotherServerStaysThere) {
  Exchange(1);
  KillServer0();
  RunTimers();
  EXPECT_FALSE(connection(1).is_ended);
  EXPECT_EQ(connection(1).sent, std::vector<Epoch>{Epoch(1)});
  EXPECT_EQ(connections_.size(), 2u) << "it is connected already";
  connection(1).Answer(absl::OkStatus());
  EXPECT_EQ(replies_.size(), 1u);
}

TEST_F(ParameterClientFailOverTest, ABackoffEndsAtOnceWhenTheShardHasAnotherServer) {
  Exchange(0);
  Exchange(1);
  for (int i = 0; i < 8; ++i) {
    connection(0).Answer(absl::UnavailableError("lost"));
    connection(1).Answer(absl::UnavailableError("lost"));
    if (i < 7) clock_.Advance(absl::Seconds(1));
  }
  const size_t sent = connection(1).sent.size();
  KillServer0();
  ASSERT_EQ(connection(1).sent.size(), sent + 1) << "slice 1 has the same server";
  EXPECT_EQ(connection(1).sent.back(), Epoch(2));
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(connection(1).sent.size(), sent + 2) << "its timer has sent slice 0 again";
  EXPECT_EQ(connection(0).sent.size(), 8u);
}

TEST_F(ParameterClientFailOverTest, AnotherProcessOfTheServerGetsAConnectionOfItsOwn) {
  // The same address, then the same incarnation.
  const RoutedServer restarted = {Process(10).address, Incarnation(11)};
  const RoutedServer moved = {{"elsewhere:10"}, Incarnation(11)};
  Exchange(0);
  size_t last = 0;
  for (const RoutedServer& next : {restarted, moved}) {
    client_->UpdateRouting(Routing(2 + last, {0, 1}, next, Process(20)));
    RunTimers();
    EXPECT_TRUE(connection(last == 0 ? 0 : 2).is_ended);
    ++last;
    ASSERT_EQ(connections_.size(), 2 + last);
    EXPECT_EQ(connection(1 + last).address, absl::StrCat("0@", next.address.grpc));
    EXPECT_EQ(connection(1 + last).sent.size(), 1u);
  }
  EXPECT_FALSE(connection(1).is_ended);
  connection(3).Answer(absl::OkStatus());
  EXPECT_EQ(replies_.size(), 1u);
}

TEST_F(ParameterClientFailOverTest, AProcessThatReturnsInTheSameEpochIsConnected) {
  KillServer0();
  RoutingTable routing = Routing(2, {0, 1}, Process(11), Process(20));
  client_->UpdateRouting(routing);
  EXPECT_EQ(connections_.size(), 2u) << "not newer";
  ++routing.version;
  client_->UpdateRouting(routing);
  ASSERT_EQ(connections_.size(), 3u);
  Exchange(0);
  EXPECT_EQ(connection(2).sent.size(), 1u);
}

TEST_F(ParameterClientFailOverTest, WhatWaitsForAnEpochWaitsOnThroughOtherViews) {
  Exchange(0);
  std::exchange(connection(0).open,
                {})[0](ErrorReply(absl::FailedPreconditionError("stale epoch"), Epoch(2)));
  RoutingTable routing = Routing(1, {0, 1}, Process(10), Process(20));
  ++routing.version;
  client_->UpdateRouting(routing);
  EXPECT_EQ(connection(0).sent.size(), 1u);
  KillServer0();
  EXPECT_EQ(connection(1).sent.size(), 1u) << "server 0 has answered it already";
}

TEST_F(ParameterClientFailOverTest, WhatTheOldConnectionAnswersBeforeItsEndIsNotSentTwice) {
  Exchange(0);
  Exchange(0);
  KillServer0();
  // A copy has all that the old primary answers OK.
  auto open = std::exchange(connection(0).open, {});
  open[0](ExchangeReply());
  EXPECT_EQ(replies_.size(), 1u);
  open[1](ErrorReply(absl::UnavailableError("broke")));
  EXPECT_EQ(connection(1).sent.size(), 1u) << "without a backoff";
  clock_.Advance(absl::Minutes(1));
  EXPECT_TRUE(connection(0).is_ended);
  EXPECT_EQ(connection(1).sent.size(), 1u);
  connection(1).Answer(absl::OkStatus());
  EXPECT_EQ(replies_.size(), 2u);
}

TEST_F(ParameterClientFailOverTest, AConnectionIsNotEndedWhileItTakesAnExchange) {
  connection(0).in_exchange = [this] {
    KillServer0();
    RunTimers();
    EXPECT_FALSE(connection(0).is_ended);
  };
  Exchange(0);
  EXPECT_FALSE(connection(0).is_ended) << "the sender does not wait for the end either";
  RunTimers();
  EXPECT_TRUE(connection(0).is_ended);
  EXPECT_EQ(connection(1).sent.size(), 1u);
}

TEST_F(ParameterClientFailOverTest, DestructionEndsWhatIsToBeEnded) {
  Exchange(0);
  KillServer0();
  client_ = nullptr;
  EXPECT_TRUE(connection(0).is_ended);
  EXPECT_TRUE(connection(1).sent.empty());
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(replies_[0]));
  clock_.Advance(absl::Minutes(1));
}

TEST_F(ParameterClientFailOverTest, ServersDieAndReturnInQuickSuccession) {
  Exchange(0);
  Exchange(1);
  KillServer0();
  // Server 1 dies before it got anything, and a new process of server 0 has all shards.
  client_->UpdateRouting(Routing(3, {1, 1}, Process(11), Process(20)));
  client_->UpdateRouting(Routing(4, {0, 0}, Process(11), Process(20, kIsDead)));
  ASSERT_EQ(connections_.size(), 3u);
  EXPECT_TRUE(connection(2).sent.empty());
  RunTimers();
  EXPECT_TRUE(connection(0).is_ended);
  EXPECT_TRUE(connection(1).is_ended);
  EXPECT_EQ(connection(1).sent.size(), 1u);
  EXPECT_EQ(connection(2).sent, (std::vector<Epoch>{Epoch(4), Epoch(4)}));
  connection(2).Answer(absl::OkStatus());
  EXPECT_EQ(replies_.size(), 2u);
}

TEST_F(ParameterClientFailOverTest, WhatHasNoLiveServerWaitsForOne) {
  client_->UpdateRouting(Routing(2, {0, 1}, Process(10, kIsDead), Process(20)));
  Exchange(0);
  EXPECT_EQ(delivered_, 1) << "nobody reads its bytes, and others may go";
  clock_.Advance(absl::Seconds(20));
  EXPECT_TRUE(replies_.empty());
  client_->UpdateRouting(Routing(3, {1, 1}, Process(10, kIsDead), Process(20)));
  EXPECT_EQ(connection(1).sent.size(), 1u);
  connection(1).Answer(absl::UnavailableError("lost"));
  clock_.Advance(absl::Seconds(20));
  EXPECT_TRUE(replies_.empty()) << "server 1 was not unreachable for 30 s";
  EXPECT_EQ(connection(1).sent.size(), 2u) << "the first backoff is short";
}

TEST_F(ParameterClientFailOverTest, WhatHasNoLiveServerForTooLongFails) {
  client_->UpdateRouting(Routing(2, {0, 1}, Process(10, kIsDead), Process(20)));
  Exchange(0);
  clock_.Advance(absl::Seconds(32));
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(replies_[0]));
  EXPECT_THAT(std::string(replies_[0].message()),
              HasSubstr("server 0 (host:10) has been unreachable for 30s"));
}

}  // namespace
}  // namespace capstan
