#include "common/transport/bounded_replies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/ids.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kOverhead = BoundedReplies::kOverheadBytes;
constexpr uint64_t kValueBytes = 1024 - kOverhead;  // with its overhead a reply counts 1024

// Answers when it is told to, as a shard does that has parked everything.
class ParkingEndpoint : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override {
    sent();
    asked_.push_back(request);
    if (answers_at_once_) return Answer(std::move(done));
    parked_.push_back(std::move(done));
  }
  // Answers all that is parked, and from now on everything at once.
  void Release() {
    answers_at_once_ = true;
    std::vector<ReplyCallback> parked;
    parked.swap(parked_);
    for (ReplyCallback& done : parked) Answer(std::move(done));
  }
  const std::vector<ExchangeRequest>& asked() const { return asked_; }
  // How many payloads of values are alive.
  int64_t alive() const { return values_.use_count() - 1; }

 private:
  void Answer(ReplyCallback done) {
    ExchangeReply reply;
    reply.values = Payload(absl::MakeConstSpan(*values_), values_);
    done(std::move(reply));
  }

  const std::shared_ptr<std::vector<float>> values_ =
      std::make_shared<std::vector<float>>(kValueBytes / sizeof(float), 1.0f);
  bool answers_at_once_ = false;
  std::vector<ExchangeRequest> asked_;
  std::vector<ReplyCallback> parked_;
};

// Keeps what is sent until the test lets go of it.
class SlowConnection : public BoundedReplies {
 public:
  using BoundedReplies::BoundedReplies;
  using BoundedReplies::SendError;

  void SendReply(uint64_t request_id, ExchangeReply reply, uint64_t bytes) override {
    order_.push_back(request_id);
    sending_.emplace_back(std::move(reply), bytes);
  }
  // The oldest reply has left.
  void FinishOne() {
    const uint64_t bytes = sending_.front().second;
    sending_.erase(sending_.begin());
    Sent(bytes);
  }
  const std::vector<uint64_t>& order() const { return order_; }
  size_t sending() const { return sending_.size(); }

 private:
  std::vector<uint64_t> order_;
  std::vector<std::pair<ExchangeReply, uint64_t>> sending_;
};

RequestFrame PushAndPull(uint64_t id) {
  RequestFrame frame;
  frame.request_id = id;
  frame.request.slice = {TableId(0), SliceIndex(static_cast<uint32_t>(id))};
  frame.request.push_step = Step(3);
  frame.request.pull_step = Step(4);
  const auto gradient = std::make_shared<std::vector<float>>(4, 1.0f);
  frame.request.gradient = Payload(absl::MakeConstSpan(*gradient), gradient);
  return frame;
}

TEST(BoundedRepliesTest, ValuesThatDoNotFitArePulledAgainWhenThereIsRoom) {
  ParkingEndpoint endpoint;
  const auto connection = std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/2048);
  for (uint64_t id = 1; id <= 5; ++id) connection->Exchange(PushAndPull(id), [] {});
  EXPECT_TRUE(connection->MayTakeRequests()) << "what is parked holds nothing";
  endpoint.Release();
  EXPECT_EQ(connection->sending(), 2u);
  EXPECT_EQ(endpoint.alive(), 2) << "the other values are not held";
  EXPECT_EQ(connection->held_bytes(), 2048 + 3 * kOverhead);
  EXPECT_FALSE(connection->MayTakeRequests());
  while (connection->sending() > 0) connection->FinishOne();
  EXPECT_THAT(connection->order(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(connection->held_bytes(), 0u);
  EXPECT_TRUE(connection->MayTakeRequests());
}

TEST(BoundedRepliesTest, WhatIsAskedAgainIsThePullAlone) {
  ParkingEndpoint endpoint;
  const auto connection = std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1024);
  endpoint.Release();
  connection->Exchange(PushAndPull(1), [] {});
  connection->Exchange(PushAndPull(2), [] {});
  connection->FinishOne();
  ASSERT_EQ(endpoint.asked().size(), 3u);
  const ExchangeRequest& again = endpoint.asked()[2];
  EXPECT_EQ(again.slice, PushAndPull(2).request.slice);
  EXPECT_FALSE(again.push_step.has_value());
  EXPECT_TRUE(again.gradient.empty());
  EXPECT_EQ(again.pull_step, Step(4));
}

TEST(BoundedRepliesTest, AReplyLargerThanTheBoundIsSentAlone) {
  ParkingEndpoint endpoint;
  const auto connection = std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1);
  endpoint.Release();
  for (uint64_t id = 1; id <= 3; ++id) connection->Exchange(PushAndPull(id), [] {});
  for (int sent = 0; sent < 3; ++sent) {
    EXPECT_EQ(connection->sending(), 1u);
    connection->FinishOne();
  }
  EXPECT_THAT(connection->order(), ElementsAre(1, 2, 3));
}

TEST(BoundedRepliesTest, NewValuesDoNotOvertakeThoseThatWait) {
  ParkingEndpoint endpoint;
  const auto connection = std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/2048);
  endpoint.Release();
  for (uint64_t id = 1; id <= 3; ++id) connection->Exchange(PushAndPull(id), [] {});
  connection->FinishOne();
  connection->Exchange(PushAndPull(4), [] {});
  while (connection->sending() > 0) connection->FinishOne();
  EXPECT_THAT(connection->order(), ElementsAre(1, 2, 3, 4));
}

TEST(BoundedRepliesTest, ErrorsAreSentAtOnceAndCount) {
  ParkingEndpoint endpoint;
  const auto connection = std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1024);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(connection->MayTakeRequests());
    connection->SendError(/*request_id=*/0, ErrorReply(absl::InvalidArgumentError("no message")));
  }
  EXPECT_EQ(connection->sending(), 4u);
  EXPECT_FALSE(connection->MayTakeRequests());
}

TEST(BoundedRepliesTest, NothingIsSentOrKeptOnceItIsClosed) {
  ParkingEndpoint endpoint;
  const auto connection = std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1024);
  for (uint64_t id = 1; id <= 2; ++id) connection->Exchange(PushAndPull(id), [] {});
  connection->Close();
  endpoint.Release();
  EXPECT_THAT(connection->order(), IsEmpty());
  EXPECT_EQ(endpoint.alive(), 0);
}

// Sends at once, within SendReply.
class FastConnection : public BoundedReplies {
 public:
  using BoundedReplies::BoundedReplies;
  void SendReply(uint64_t, ExchangeReply, uint64_t bytes) override {
    ++sent_;
    deepest_ = std::max(deepest_, ++depth_);
    if (sent_ > 1) Sent(bytes);
    --depth_;
  }
  int sent_ = 0;
  int depth_ = 0;
  int deepest_ = 0;
};

TEST(BoundedRepliesTest, ManyThatWaitMakeNoDeepCalls) {
  ParkingEndpoint endpoint;
  const auto connection = std::make_shared<FastConnection>(&endpoint, /*max_bytes=*/1024);
  endpoint.Release();
  for (uint64_t id = 1; id <= 10000; ++id) connection->Exchange(PushAndPull(id), [] {});
  EXPECT_EQ(connection->sent_, 1);
  connection->Sent(1024);
  EXPECT_EQ(connection->sent_, 10000);
  EXPECT_EQ(connection->deepest_, 1);
}

}  // namespace
}  // namespace capstan
