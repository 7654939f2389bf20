#include "common/transport/bounded_replies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/base/ids.h"
#include "common/exchange/request_parts.h"
#include "common/scheduler/transfer_queue.h"
#include "common/trace/exchange_trace.h"
#include "common/trace/traced_text.h"
#include "common/trace/tracer.h"
#include "common/transport/reply_order.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kOverhead = BoundedReplies::kOverheadBytes;
constexpr uint64_t kValueBytes = 1024 - kOverhead;  // a reply counts 1024 bytes with its overhead

// Parks all exchanges until Release.
class ParkingEndpoint : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    asked_.push_back(request);
    if (answers_at_once_) return Answer(std::move(done));
    parked_.push_back(std::move(done));
  }
  // Answers all parked exchanges, and all later ones at once.
  void Release() {
    answers_at_once_ = true;
    std::vector<ReplyCallback> parked;
    parked.swap(parked_);
    for (ReplyCallback& done : parked) Answer(std::move(done));
  }
  const std::vector<ExchangeRequest>& asked() const { return asked_; }
  // Number of existing payloads of values.
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

// Keeps replies until the test releases and delivers them.
class SlowConnection : public BoundedReplies::Sender {
 public:
  SlowConnection(ParameterEndpoint* endpoint, uint64_t max_bytes, ReplyOrder order)
      : replies(endpoint, max_bytes, std::move(order), this) {}

  void SendReply(uint64_t request_id, ExchangeReply reply, uint64_t bytes,
                 absl::AnyInvocable<void()> delivered) override {
    order_.push_back(request_id);
    sending_.emplace_back(std::move(reply), bytes);
    undelivered_.push_back(std::move(delivered));
  }
  // Releases the oldest reply.
  void ReleaseOne() {
    const uint64_t bytes = sending_.front().second;
    sending_.erase(sending_.begin());
    replies.Released(bytes);
  }
  // Delivers the oldest reply.
  void DeliverOne() {
    absl::AnyInvocable<void()> delivered = std::move(undelivered_.front());
    undelivered_.erase(undelivered_.begin());
    delivered();
  }
  const std::vector<uint64_t>& order() const { return order_; }
  size_t sending() const { return sending_.size(); }

  BoundedReplies replies;

 private:
  std::vector<uint64_t> order_;
  std::vector<std::pair<ExchangeReply, uint64_t>> sending_;
  std::vector<absl::AnyInvocable<void()>> undelivered_;
};

RequestFrame PushAndPull(uint64_t id) {
  RequestFrame frame;
  frame.request_id = id;
  const auto gradient = std::make_shared<std::vector<float>>(4, 1.0f);
  ExchangeRequest& request = frame.request.emplace();
  request.slice = {TableId(0), SliceIndex(static_cast<uint32_t>(id))};
  request.purpose =
      MakeDenseStep(Step(3), Step(4), Payload(absl::MakeConstSpan(*gradient), gradient));
  return frame;
}

TEST(BoundedRepliesTest, ValuesThatDoNotFitArePulledAgainWhenThereIsRoom) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/2048, ReplyOrder());
  for (uint64_t id = 1; id <= 5; ++id) connection->replies.Exchange(PushAndPull(id), [] {});
  EXPECT_TRUE(connection->replies.MayTakeRequests()) << "what is parked holds nothing";
  endpoint.Release();
  EXPECT_EQ(connection->sending(), 2u);
  EXPECT_EQ(endpoint.alive(), 2) << "the other values are not held";
  EXPECT_EQ(connection->replies.held_bytes(), 2048 + 3 * kOverhead);
  EXPECT_FALSE(connection->replies.MayTakeRequests());
  while (connection->sending() > 0) connection->ReleaseOne();
  EXPECT_THAT(connection->order(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(connection->replies.held_bytes(), 0u);
  EXPECT_TRUE(connection->replies.MayTakeRequests());
}

TEST(BoundedRepliesTest, WhatIsAskedAgainIsThePullAlone) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1024, ReplyOrder());
  endpoint.Release();
  connection->replies.Exchange(PushAndPull(1), [] {});
  connection->replies.Exchange(PushAndPull(2), [] {});
  connection->ReleaseOne();
  ASSERT_EQ(endpoint.asked().size(), 3u);
  const ExchangeRequest& again = endpoint.asked()[2];
  EXPECT_EQ(again.slice, PushAndPull(2).request->slice);
  EXPECT_EQ(PushOf(again), nullptr);
  EXPECT_EQ(PayloadBytes(again), 0u);
  EXPECT_EQ(PullStepOf(again), Step(4));
}

TEST(BoundedRepliesTest, AMalformedRequestIsAnsweredAndReachesNobody) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1024, ReplyOrder());
  RequestFrame frame;
  frame.request_id = 7;
  frame.request = absl::InvalidArgumentError("expected 9 bytes of keys");
  bool is_taken = false;
  connection->replies.Exchange(std::move(frame), [&is_taken] { is_taken = true; });
  EXPECT_TRUE(is_taken);
  EXPECT_THAT(connection->order(), ElementsAre(7));
  EXPECT_TRUE(endpoint.asked().empty());
}

TEST(BoundedRepliesTest, AReplyLargerThanTheBoundIsSentAlone) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1, ReplyOrder());
  endpoint.Release();
  for (uint64_t id = 1; id <= 3; ++id) connection->replies.Exchange(PushAndPull(id), [] {});
  for (int delivered = 0; delivered < 3; ++delivered) {
    EXPECT_EQ(connection->sending(), 1u);
    connection->ReleaseOne();
  }
  EXPECT_THAT(connection->order(), ElementsAre(1, 2, 3));
}

TEST(BoundedRepliesTest, NewValuesDoNotOvertakeThoseThatWait) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/2048, ReplyOrder());
  endpoint.Release();
  for (uint64_t id = 1; id <= 3; ++id) connection->replies.Exchange(PushAndPull(id), [] {});
  connection->ReleaseOne();
  connection->replies.Exchange(PushAndPull(4), [] {});
  while (connection->sending() > 0) connection->ReleaseOne();
  EXPECT_THAT(connection->order(), ElementsAre(1, 2, 3, 4));
}

TEST(BoundedRepliesTest, ErrorsAreSentAtOnceAndCount) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1024, ReplyOrder());
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(connection->replies.MayTakeRequests());
    connection->replies.SendError(/*request_id=*/0,
                                  ErrorReply(absl::InvalidArgumentError("no message")));
  }
  EXPECT_EQ(connection->sending(), 4u);
  EXPECT_FALSE(connection->replies.MayTakeRequests());
}

TEST(BoundedRepliesTest, AnErrorCountsItsMessage) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/10'000, ReplyOrder());
  const std::string message(10'000, 'x');
  connection->replies.SendError(/*request_id=*/0, ErrorReply(absl::InvalidArgumentError(message)));
  EXPECT_EQ(connection->replies.held_bytes(), kOverhead + message.size());
  EXPECT_FALSE(connection->replies.MayTakeRequests());
  connection->ReleaseOne();
  EXPECT_EQ(connection->replies.held_bytes(), 0u);
}

TEST(BoundedRepliesTest, NothingIsSentOrKeptOnceItIsClosed) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1024, ReplyOrder());
  for (uint64_t id = 1; id <= 2; ++id) connection->replies.Exchange(PushAndPull(id), [] {});
  connection->replies.Close();
  endpoint.Release();
  EXPECT_THAT(connection->order(), IsEmpty());
  EXPECT_EQ(endpoint.alive(), 0);
}

// Layers nearest the input go first. Each table is the layer of the same number.
ReplyOrder ByLayer(uint64_t credit_bytes) {
  ReplyOrder order;
  order.credit_bytes = credit_bytes;
  order.make_queue = [] { return std::make_unique<PriorityQueue>(); };
  order.layer_of = [](TableId table) { return static_cast<int>(table.value()); };
  return order;
}

RequestFrame OfLayer(uint64_t layer) {
  RequestFrame frame = PushAndPull(/*id=*/layer);
  frame.request->slice.table = TableId(static_cast<uint32_t>(layer));
  return frame;
}

TEST(BoundedRepliesTest, TheFirstLayersGoFirstToAPeerThatIsSlowToReceive) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1 << 20, ByLayer(/*credit=*/1));
  endpoint.Release();
  for (uint64_t layer = 5; layer >= 1; --layer) connection->replies.Exchange(OfLayer(layer), [] {});
  EXPECT_THAT(connection->order(), ElementsAre(5)) << "the credit is used up";
  connection->ReleaseOne();
  EXPECT_THAT(connection->order(), ElementsAre(5)) << "what has left is not received yet";
  while (connection->order().size() < 5) connection->DeliverOne();
  EXPECT_THAT(connection->order(), ElementsAre(5, 1, 2, 3, 4));
}

TEST(BoundedRepliesTest, ValuesGoWhileTheCreditIsNotUsedUp) {
  ParkingEndpoint endpoint;
  const auto connection = std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1 << 20,
                                                           ByLayer(2 * kValueBytes - 1));
  endpoint.Release();
  for (uint64_t layer = 1; layer <= 4; ++layer) connection->replies.Exchange(OfLayer(layer), [] {});
  EXPECT_THAT(connection->order(), ElementsAre(1, 2));
  connection->DeliverOne();
  EXPECT_THAT(connection->order(), ElementsAre(1, 2, 3));
}

TEST(BoundedRepliesTest, AnotherCreditCountsFromTheNextValuesOn) {
  ParkingEndpoint endpoint;
  uint64_t credit = 1;
  ReplyOrder order = ByLayer(/*credit_bytes=*/1 << 20);
  order.credit_now = [&credit] { return credit; };
  const auto connection = std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1 << 20, order);
  endpoint.Release();
  for (uint64_t layer = 1; layer <= 2; ++layer) connection->replies.Exchange(OfLayer(layer), [] {});
  EXPECT_THAT(connection->order(), ElementsAre(1));
  credit = 3 * kValueBytes;
  connection->replies.Exchange(OfLayer(3), [] {});
  EXPECT_THAT(connection->order(), ElementsAre(1, 2, 3));
}

TEST(BoundedRepliesTest, WhatDidNotFitIsPulledAgainInTheSameOrder) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1024, ByLayer(1 << 20));
  endpoint.Release();
  for (uint64_t layer = 5; layer >= 1; --layer) connection->replies.Exchange(OfLayer(layer), [] {});
  while (connection->sending() > 0) connection->ReleaseOne();
  EXPECT_THAT(connection->order(), ElementsAre(5, 1, 2, 3, 4));
}

TEST(BoundedRepliesTest, WhatHasNoValuesNeedsNoCredit) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/1 << 20, ByLayer(/*credit=*/1));
  endpoint.Release();
  connection->replies.Exchange(OfLayer(1), [] {});
  connection->replies.Exchange(OfLayer(2), [] {});
  connection->replies.SendError(/*request_id=*/0,
                                ErrorReply(absl::InvalidArgumentError("no message")));
  EXPECT_THAT(connection->order(), ElementsAre(1, 0));
}

TEST(BoundedRepliesTest, ValuesThatWaitForCreditCountAndGoWithTheConnection) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/2048, ByLayer(/*credit=*/1));
  endpoint.Release();
  for (uint64_t layer = 1; layer <= 4; ++layer) connection->replies.Exchange(OfLayer(layer), [] {});
  EXPECT_THAT(connection->order(), ElementsAre(1));
  EXPECT_EQ(connection->replies.held_bytes(), 2048 + 2 * kOverhead);
  EXPECT_EQ(endpoint.alive(), 2);
  EXPECT_FALSE(connection->replies.MayTakeRequests());
  connection->replies.Close();
  EXPECT_EQ(endpoint.alive(), 1) << "what is being sent";
}

// Starts a trace with each reply.
class TracedEndpoint : public ParkingEndpoint {
 public:
  explicit TracedEndpoint(Tracer* tracer) : tracer_(tracer) {}
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    const std::string name = absl::StrCat("layer ", request.slice.table.value());
    ParkingEndpoint::Exchange(std::move(request), std::move(delivered),
                              [this, name, done = std::move(done)](ExchangeReply reply) mutable {
                                reply.trace = ExchangeTrace(tracer_, name, {}, "parked");
                                done(std::move(reply));
                              });
  }

 private:
  Tracer* const tracer_;
};

TEST(BoundedRepliesTest, TracesSayHowLongValuesWaitedForCreditAndWereOnTheirWay) {
  FakeClock clock;
  Tracer::Options options;
  options.path = testing::TempDir() + "bounded_replies";
  options.clock = &clock;
  const std::unique_ptr<Tracer> tracer = Tracer::Create(options).value();
  TracedEndpoint endpoint(tracer.get());
  const auto connection =
      std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/2048, ByLayer(/*credit=*/1));
  endpoint.Release();
  for (uint64_t layer = 1; layer <= 3; ++layer) connection->replies.Exchange(OfLayer(layer), [] {});
  clock.Advance(absl::Microseconds(5));
  connection->DeliverOne();
  clock.Advance(absl::Microseconds(7));
  connection->DeliverOne();
  ASSERT_TRUE(tracer->Finish().ok());
  EXPECT_EQ(TracedText(options.path),
            "b layer 3 0.0\nb parked 0.0\ne parked 0.0\ne layer 3 0.0\n"  // did not fit
            "b layer 1 0.0\nb parked 0.0\ne parked 0.0\n"
            "b reply queue 0.0\ne reply queue 0.0\nb reply send 0.0\ne reply send 5.0\n"
            "e layer 1 5.0\n"
            "b layer 2 0.0\nb parked 0.0\ne parked 0.0\n"
            "b reply queue 0.0\ne reply queue 5.0\nb reply send 5.0\ne reply send 12.0\n"
            "e layer 2 12.0\n");
}

// Delivers each reply within SendReply. Also releases it, except the first.
class FastConnection : public BoundedReplies::Sender {
 public:
  FastConnection(ParameterEndpoint* endpoint, uint64_t max_bytes, ReplyOrder order)
      : replies(endpoint, max_bytes, std::move(order), this) {}

  void SendReply(uint64_t, ExchangeReply, uint64_t bytes,
                 absl::AnyInvocable<void()> delivered) override {
    ++sent_;
    deepest_ = std::max(deepest_, ++depth_);
    delivered();
    if (sent_ > 1) replies.Released(bytes);
    --depth_;
  }
  BoundedReplies replies;
  int sent_ = 0;
  int depth_ = 0;
  int deepest_ = 0;
};

TEST(BoundedRepliesTest, ManyThatWaitMakeNoDeepCalls) {
  ParkingEndpoint endpoint;
  const auto connection =
      std::make_shared<FastConnection>(&endpoint, /*max_bytes=*/1024, ReplyOrder());
  endpoint.Release();
  for (uint64_t id = 1; id <= 10000; ++id) connection->replies.Exchange(PushAndPull(id), [] {});
  EXPECT_EQ(connection->sent_, 1);
  connection->replies.Released(1024);
  EXPECT_EQ(connection->sent_, 10000);
  EXPECT_EQ(connection->deepest_, 1);
}

TEST(BoundedRepliesTest, TheMemoryOfAllConnectionsIsSummed) {
  ReplyMemory memory;
  ReplyOrder order;
  order.memory = &memory;
  ParkingEndpoint endpoint;
  endpoint.Release();
  auto one = std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/2048, order);
  auto other = std::make_shared<SlowConnection>(&endpoint, /*max_bytes=*/2048, order);
  for (uint64_t id = 1; id <= 3; ++id) one->replies.Exchange(PushAndPull(id), [] {});
  other->replies.Exchange(PushAndPull(1), [] {});
  EXPECT_EQ(memory.bytes(), 2048 + kOverhead + 1024);
  one->ReleaseOne();
  one->ReleaseOne();
  EXPECT_EQ(memory.bytes(), 1024 + 1024);
  one->replies.Close();
  one.reset();
  EXPECT_EQ(memory.bytes(), 1024);
  other.reset();
  EXPECT_EQ(memory.bytes(), 0);
}

}  // namespace
}  // namespace capstan
