#include "worker/client/parameter_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/base/mutex.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"
#include "common/exchange/request_parts.h"
#include "common/routing/placement.h"
#include "common/routing/routing_table.h"
#include "common/scheduler/transfer_queue.h"
#include "worker/client/parameter_client.h"
#include "worker/client/parameter_mirror.h"

namespace capstan {
namespace {

struct Asked {
  ExchangeRequest request;
  ParameterEndpoint::ReplyCallback done;
};

class FakeEndpoint : public ParameterEndpoint {
 public:
  FakeEndpoint(std::vector<Asked>* asked, const std::function<void()>* in_exchange)
      : asked_(asked), in_exchange_(in_exchange) {}
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    (*in_exchange_)();
    delivered();
    asked_->push_back({std::move(request), std::move(done)});
  }

 private:
  std::vector<Asked>* const asked_;
  const std::function<void()>* const in_exchange_;
};

// Holds exchanges. The test delivers and answers them.
class HoldingEndpoint : public ParameterEndpoint {
 public:
  struct Held {
    ExchangeRequest request;
    DeliveredCallback delivered;
    ReplyCallback done;
  };
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    held.push_back({std::move(request), std::move(delivered), std::move(done)});
  }

  std::deque<Held> held;  // `delivered` may add to it
};

// A clock with events during waits.
class EventfulClock : public FakeClock {
 public:
  bool WaitUntil(Mutex& mutex, CondVar& condition,
                 absl::Time deadline) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (in_wait_ == nullptr) return FakeClock::WaitUntil(mutex, condition, deadline);
    mutex.Unlock();
    in_wait_();
    mutex.Lock();
    return Now() < deadline;
  }

  std::function<void()> in_wait_;
};

ExchangeReply Values(size_t count, float value, Step min_step) {
  auto values = std::make_shared<std::vector<float>>(count, value);
  ExchangeReply reply;
  reply.values = Payload(absl::MakeConstSpan(*values), values);
  reply.min_step = min_step;
  return reply;
}

// Records all calls.
class RecordingMirror : public ParameterMirror {
 public:
  absl::StatusOr<HostBuffer> AllocateHost(size_t size) override {
    if (size > memory_) return absl::ResourceExhaustedError("no more pinned memory");
    memory_ -= size;
    return HostBuffer(size);
  }
  absl::Status SliceArrived(TableId table, const SliceRange& range, const float* values) override {
    told_.push_back(absl::StrCat("table ", table.value(), " from ", range.offset, ": ", range.size,
                                 " of ", values[0]));
    return answer_;
  }
  absl::StatusOr<std::unique_ptr<GradientEncoder>> UseCodecs(const CodecPlan& plan) override {
    return HostEncoder::Create(plan);
  }
  absl::Status EncodedSliceArrived(SliceKey key, CodecType codec, const Payload& bytes) override {
    told_.push_back(absl::StrCat("table ", key.table.value(), " slice ", key.slice.value(), ": ",
                                 bytes.size_bytes(), " bytes of codec ", static_cast<int>(codec),
                                 ", the first ", bytes.piece().empty() ? 0 : bytes.piece()[0]));
    return answer_;
  }
  absl::Status LayerArrived(int layer) override {
    told_.push_back(absl::StrCat("layer ", layer));
    return answer_;
  }

  size_t memory_ = 46;
  absl::Status answer_;
  std::vector<std::string> told_;
};

// Layer 0 has a table of 20 floats (slices of 16 and 4), layer 1 one of 3.
class ParameterStoreTest : public testing::Test {
 protected:
  ParameterStoreTest() {
    ParameterClient::Options client;
    client.clock = &clock_;
    client_ = std::make_unique<ParameterClient>(
        client, ShardMap({20, 3}, /*slice_bytes=*/64, /*shard_count=*/1), Routing(),
        [this](ServerId, const ServerAddress&) {
          return std::make_unique<FakeEndpoint>(&asked_, &in_exchange_);
        });
    store_ = ParameterStore::Create(StoreOptions()).value();
  }

  // Layer 1 pulls bfloat16.
  ParameterStore::Options WithCodecs(const std::string& push) {
    ParameterStore::Options options = StoreOptions();
    options.codecs.resize(2);
    options.codecs[1] = {MakeCodec(push).value(), MakeCodec("bfloat16").value(), {}, {}};
    return options;
  }

  // Gradients are encoded in timers.
  void RunTimers() { clock_.Advance(absl::ZeroDuration()); }

  static RoutingTable Routing() {
    RoutingTable routing;
    routing.epoch = Epoch(1);
    routing.server_of_shard = {ServerId(0)};
    routing.servers = {{{"a:1"}}};
    return routing;
  }

  ParameterStore::Options StoreOptions() {
    ParameterStore::Options options;
    options.clock = &clock_;
    options.client = client_.get();
    options.scheduler = &scheduler_;
    options.sender = {/*job=*/5, WorkerId(2), Incarnation(77)};
    options.slice_bytes = 64;
    options.tables.resize(2);
    options.tables[0].add_shape(4);
    options.tables[0].add_shape(5);
    options.tables[1].add_shape(3);
    options.tables[1].set_layer(1);
    return options;
  }

  EventfulClock clock_;
  std::vector<Asked> asked_;
  std::function<void()> in_exchange_ = [] {};
  Scheduler scheduler_{/*credit_bytes=*/1 << 20, std::make_unique<FifoQueue>()};
  std::unique_ptr<ParameterClient> client_;
  std::unique_ptr<ParameterStore> store_;
};

TEST_F(ParameterStoreTest, PullsEverySliceIntoItsPlace) {
  store_->PullAll(Step(0));
  ASSERT_EQ(asked_.size(), 3);
  asked_[1].done(Values(4, 2.0f, Step(0)));
  asked_[0].done(Values(16, 1.0f, Step(0)));
  asked_[2].done(Values(3, 3.0f, Step(0)));
  ASSERT_TRUE(store_->WaitForAll().ok());
  EXPECT_EQ(store_->values()[0][15], 1.0f);
  EXPECT_EQ(store_->values()[0][16], 2.0f);
  EXPECT_EQ(store_->values()[1][2], 3.0f);
  EXPECT_EQ(store_->traffic().bytes_pulled, 23 * 4);
  EXPECT_EQ(store_->traffic().bytes_pushed, 0);
}

TEST_F(ParameterStoreTest, PushesTheGradientOfOneLayerAndPullsItsNextStep) {
  for (float& value : store_->gradients()[0]) value = 9.0f;
  store_->PushPull(/*layer=*/0, Step(6));
  ASSERT_EQ(asked_.size(), 2);
  EXPECT_EQ(asked_[1].request.sender.job, 5);
  EXPECT_EQ(asked_[1].request.sender.worker, WorkerId(2));
  EXPECT_EQ(asked_[1].request.sender.incarnation, Incarnation(77));
  EXPECT_EQ(PushStepOf(asked_[1].request), Step(6));
  EXPECT_EQ(PullStepOf(asked_[1].request), Step(7));
  std::vector<float> gradient(4);
  BroughtBy(asked_[1].request).CopyTo(absl::MakeSpan(gradient));
  EXPECT_EQ(gradient, std::vector<float>(4, 9.0f));
  ASSERT_TRUE(store_->WaitForLayer(1).ok()) << "the other layer has nothing open";
  asked_[0].done(Values(16, 1.0f, Step(5)));
  asked_[1].done(Values(4, 1.0f, Step(4)));
  ASSERT_TRUE(store_->WaitForLayer(0).ok());
  EXPECT_EQ(store_->traffic().bytes_pushed, 80);
  EXPECT_EQ(store_->traffic().pushed_by_codec.of(CodecType::kFloat32), 80);
  EXPECT_EQ(store_->traffic().max_staleness_seen, 3);
  EXPECT_EQ(store_->traffic().mean_staleness_seen, 2.5);
  EXPECT_EQ(store_->traffic().replies_of_staleness, (std::vector<uint64_t>{0, 0, 1, 1}));
}

TEST_F(ParameterStoreTest, TimeOfWaitingAndOfSendingAreTold) {
  clock_.in_wait_ = [this] {
    clock_.Advance(absl::Seconds(3));
    asked_[0].done(Values(3, 1.0f, Step(1)));
  };
  in_exchange_ = [this] { clock_.Advance(absl::Seconds(2)); };
  store_->PushPull(/*layer=*/1, Step(0));
  ASSERT_TRUE(store_->WaitForLayer(1).ok());
  ASSERT_TRUE(store_->WaitForLayer(1).ok()) << "nothing is open any more";
  EXPECT_EQ(store_->traffic().sending, absl::Seconds(2));
  EXPECT_EQ(store_->traffic().waiting, absl::Seconds(3));
}

TEST_F(ParameterStoreTest, SlicesOfAPartitionAreOneTransfer) {
  Scheduler scheduler(/*credit_bytes=*/1, std::make_unique<FifoQueue>());
  ParameterStore::Options options = StoreOptions();
  options.scheduler = &scheduler;
  options.slice_bytes = 16;  // 4 floats: the table of 20 has 5 slices
  options.partition_bytes = 47;
  ParameterClient::Options client_options;
  client_options.clock = &clock_;
  HoldingEndpoint* endpoint = nullptr;
  ParameterClient client(client_options, ShardMap({20, 3}, /*slice_bytes=*/16, /*shard_count=*/1),
                         Routing(), [&endpoint](ServerId, const ServerAddress&) {
                           auto holding = std::make_unique<HoldingEndpoint>();
                           endpoint = holding.get();
                           return holding;
                         });
  options.client = &client;
  store_ = ParameterStore::Create(options).value();
  store_->PushPull(/*layer=*/0, Step(0));
  ASSERT_NE(endpoint, nullptr);
  EXPECT_EQ(endpoint->held.size(), 2u) << "47 bytes hold 2 slices of 16";
  endpoint->held[0].delivered();
  EXPECT_EQ(endpoint->held.size(), 2u) << "the other one is still on its way";
  endpoint->held[1].delivered();
  EXPECT_EQ(endpoint->held.size(), 4u);
  store_->SetPartition(0);  // of what is submitted later
  endpoint->held[2].delivered();
  endpoint->held[3].delivered();
  ASSERT_EQ(endpoint->held.size(), 5u) << "the last partition has one slice";
  endpoint->held[4].delivered();
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(endpoint->held[i].request.slice.slice, SliceIndex(static_cast<uint32_t>(i)));
    endpoint->held[i].done(Values(4, static_cast<float>(i), Step(1)));
  }
  ASSERT_TRUE(store_->WaitForLayer(0).ok());
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(store_->values()[0][i], static_cast<float>(i / 4));
  EXPECT_EQ(store_->traffic().bytes_pushed, 80u);
  store_->PushPull(/*layer=*/0, Step(1));
  EXPECT_EQ(endpoint->held.size(), 6u) << "each by itself now";
  for (size_t i = 5; i < 10; ++i) {
    endpoint->held[i].delivered();
    endpoint->held[i].done(Values(4, 1.0f, Step(2)));
  }
  ASSERT_TRUE(store_->WaitForLayer(0).ok());
  store_ = nullptr;
}

TEST_F(ParameterStoreTest, AnOpenLayerWaitsForItsPush) {
  store_->Open(/*layer=*/1);
  ASSERT_TRUE(asked_.empty());
  std::atomic<bool> has_answered = false;
  std::thread waiter([&] {
    EXPECT_TRUE(store_->WaitForLayer(1).ok());
    EXPECT_TRUE(has_answered);
  });
  store_->PushOpened(/*layer=*/1, Step(2));
  ASSERT_EQ(asked_.size(), 1);
  EXPECT_EQ(PushStepOf(asked_[0].request), Step(2));
  has_answered = true;
  asked_[0].done(Values(3, 1.0f, Step(2)));
  waiter.join();
}

TEST_F(ParameterStoreTest, AMirrorHearsOfSlicesAndThenOfTheLayer) {
  RecordingMirror mirror;
  ParameterStore::Options options = StoreOptions();
  options.mirror = &mirror;
  store_ = ParameterStore::Create(options).value();
  store_->PullAll(Step(0));
  asked_[1].done(Values(4, 2.0f, Step(0)));
  asked_[2].done(Values(3, 3.0f, Step(0)));
  asked_[0].done(Values(16, 1.0f, Step(0)));
  ASSERT_TRUE(store_->WaitForAll().ok());
  EXPECT_EQ(mirror.told_,
            (std::vector<std::string>{"table 0 from 16: 4 of 2", "table 1 from 0: 3 of 3",
                                      "layer 1", "table 0 from 0: 16 of 1", "layer 0"}));
}

TEST_F(ParameterStoreTest, ErrorsOfTheMirrorAreTheStores) {
  RecordingMirror mirror;
  ParameterStore::Options options = StoreOptions();
  options.mirror = &mirror;
  mirror.memory_ = 45;
  EXPECT_EQ(ParameterStore::Create(options).status(),
            absl::ResourceExhaustedError("no more pinned memory"));
  mirror.memory_ = 46;
  mirror.answer_ = absl::InternalError("the GPU has failed");
  store_ = ParameterStore::Create(options).value();
  store_->PullAll(Step(0));
  asked_[0].done(Values(16, 1.0f, Step(0)));
  EXPECT_EQ(store_->WaitForAll(), absl::InternalError("the GPU has failed"));
}

TEST_F(ParameterStoreTest, TheFirstErrorEndsEveryWait) {
  store_->PullAll(Step(0));
  asked_[0].done(ErrorReply(absl::InvalidArgumentError("bad gradient")));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->WaitForLayer(1)));
  store_->Fail(absl::AbortedError("later"));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->WaitForAll()));
}

TEST_F(ParameterStoreTest, FailEndsAWaitForAReplyThatNeverComes) {
  store_->PullAll(Step(0));
  store_->Fail(absl::AbortedError("the job has failed"));
  EXPECT_TRUE(absl::IsAborted(store_->WaitForLayer(0)));
}

// bfloat16 is the upper half of a float32.
ExchangeReply Ones(size_t size) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(2 * size, 0x3f);
  for (size_t i = 0; i < size; ++i) (*bytes)[2 * i] = 0x80;
  ExchangeReply reply;
  reply.codec = CodecType::kBfloat16;
  reply.values = Payload(bytes);
  reply.values.Append(*bytes);
  return reply;
}

TEST_F(ParameterStoreTest, PushesAndPullsAreEncodedAndCounted) {
  store_ = ParameterStore::Create(WithCodecs("topk:1")).value();
  const absl::Span<float> gradient = store_->gradients()[1];
  std::copy_n(std::vector<float>{3, -4, 0}.begin(), 3, gradient.begin());
  store_->PushPull(/*layer=*/1, Step(0));
  RunTimers();
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(CodecOf(asked_[0].request), CodecType::kTopkFloat32);
  asked_[0].done(Ones(3));
  ASSERT_TRUE(store_->WaitForLayer(1).ok());
  EXPECT_THAT(store_->values()[1], testing::ElementsAre(1, 1, 1));
  const StoreTraffic traffic = store_->traffic();
  EXPECT_EQ(traffic.bytes_pushed, 8u);
  EXPECT_EQ(traffic.float_bytes_pushed, 12u);
  EXPECT_EQ(traffic.bytes_pulled, 6u);
  EXPECT_EQ(traffic.float_bytes_pulled, 12u);
  EXPECT_EQ(traffic.gradient_squares, 25);
  EXPECT_EQ(traffic.residual_squares, 9);
}

TEST_F(ParameterStoreTest, ALayerWithoutAGradientPushesNothingAndPullsItsNextStep) {
  for (float& value : store_->gradients()[0]) value = 9.0f;
  store_->PushNothing(/*layer=*/0, Step(6));
  ASSERT_EQ(asked_.size(), 2u);
  for (const Asked& asked : asked_) {
    EXPECT_TRUE(HasEmptyPush(asked.request));
    EXPECT_EQ(PayloadBytes(asked.request), 0u);
    EXPECT_EQ(PushStepOf(asked.request), Step(6));
    EXPECT_EQ(PullStepOf(asked.request), Step(7));
  }
  asked_[0].done(Values(16, 1.0f, Step(5)));
  asked_[1].done(Values(4, 1.0f, Step(4)));
  ASSERT_TRUE(store_->WaitForLayer(0).ok());
  EXPECT_EQ(store_->values()[0][19], 1.0f);
  EXPECT_EQ(store_->traffic().bytes_pushed, 0u);
  EXPECT_EQ(store_->traffic().bytes_pulled, 80u);
}

std::vector<float> Decoded(const ExchangeRequest& request, const std::string& codec) {
  std::vector<float> values(3);
  MakeCodec(codec).value()->Decode(BroughtBy(request).InOnePiece().piece(), 3, /*begin=*/0,
                                   absl::MakeSpan(values));
  return values;
}

TEST_F(ParameterStoreTest, WhatAPushHasLeftOutGoesWithTheNextGradientAndNotWithAnEmptyPush) {
  ParameterStore::Options options = WithCodecs("topk:1");
  options.codecs[1].dgc = Dgc();
  options.codecs[1].dgc->momentum = 0.5;
  options.codecs[1].dgc->clip_norm = 0;
  store_ = ParameterStore::Create(options).value();
  const auto push = [this](std::vector<float> gradient, Step step) {
    std::copy(gradient.begin(), gradient.end(), store_->gradients()[1].begin());
    store_->PushPull(/*layer=*/1, step);
    RunTimers();
    asked_.back().done(Ones(3));
    EXPECT_TRUE(store_->WaitForLayer(1).ok());
    return Decoded(asked_.back().request, "topk:1");
  };
  EXPECT_THAT(push({3, -4, 0}, Step(0)), testing::ElementsAre(0, -4, 0));
  store_->PushNothing(/*layer=*/1, Step(1));
  EXPECT_TRUE(HasEmptyPush(asked_.back().request));
  asked_.back().done(Ones(3));
  // The residual 3, and half of the momentum 3.
  EXPECT_THAT(push({0, 0, 0}, Step(2)), testing::ElementsAre(4.5, 0, 0));
}

TEST_F(ParameterStoreTest, RatesCountForTheTablesPushesFromThenOn) {
  Scheduler scheduler(/*credit_bytes=*/1, std::make_unique<FifoQueue>());
  ParameterStore::Options options = StoreOptions();
  options.scheduler = &scheduler;
  HoldingEndpoint endpoint;
  options.client = &endpoint;
  store_ = ParameterStore::Create(options).value();
  store_->PushPull(/*layer=*/0, Step(0));
  store_->SetLearningRate(TableId(0), 0.5);
  store_->SetMomentum(TableId(0), 0.75);
  store_->PushNothing(/*layer=*/0, Step(1));
  store_->SetLearningRate(TableId(0), 0);
  store_->PushPull(/*layer=*/1, Step(0));
  store_->PushPull(/*layer=*/0, Step(2));
  // One transfer at a time: the others waited when the rates changed.
  std::vector<std::optional<double>> rates, momenta;
  for (size_t i = 0; i < endpoint.held.size(); ++i) {
    rates.push_back(PushOf(endpoint.held[i].request)->rates.learning_rate);
    momenta.push_back(PushOf(endpoint.held[i].request)->rates.momentum);
    endpoint.held[i].delivered();
  }
  const std::optional<double> none;
  EXPECT_THAT(rates, testing::ElementsAre(none, none, 0.5, 0.5, none, 0.0, 0.0));
  EXPECT_THAT(momenta, testing::ElementsAre(none, none, 0.75, 0.75, none, 0.75, 0.75));
  for (HoldingEndpoint::Held& held : endpoint.held) {
    held.done(Values(held.request.destination.size(), 1.0f, Step(1)));
  }
  store_ = nullptr;
}

TEST_F(ParameterStoreTest, InitialValuesAreSentFromTheMemoryOfTheValues) {
  const absl::Span<float> values = store_->InitialValuesOf(TableId(0));
  ASSERT_EQ(values.size(), 20u);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  store_->PushInitial(TableId(0));
  ASSERT_EQ(asked_.size(), 2u);
  for (const Asked& asked : asked_) {
    EXPECT_TRUE(std::holds_alternative<InitialValues>(asked.request.purpose));
  }
  EXPECT_EQ(asked_[1].request.slice, (SliceKey{TableId(0), SliceIndex(1)}));
  std::vector<float> sent(4);
  BroughtBy(asked_[1].request).CopyTo(absl::MakeSpan(sent));
  EXPECT_THAT(sent, testing::ElementsAre(16, 17, 18, 19));
  clock_.in_wait_ = [this] { asked_[1].done(ExchangeReply()); };
  asked_[0].done(ExchangeReply());
  EXPECT_TRUE(store_->WaitForAll().ok()) << "after both answers";
}

TEST_F(ParameterStoreTest, RefusedInitialValuesEndTheWait) {
  store_->PushInitial(TableId(0));
  asked_[0].done(ErrorReply(absl::InvalidArgumentError("not from you")));
  EXPECT_EQ(store_->WaitForAll(), absl::InvalidArgumentError("not from you"));
}

TEST_F(ParameterStoreTest, AWaitWithALimitEndsWithIt) {
  store_->PushPull(/*layer=*/1, Step(0));
  clock_.in_wait_ = [this] { clock_.Advance(absl::Seconds(2)); };
  const absl::Time begin = clock_.Now();
  EXPECT_EQ(store_->WaitForLayerFor(1, absl::Seconds(5)), absl::StatusOr<bool>(false));
  EXPECT_EQ(clock_.Now() - begin, absl::Seconds(6)) << "the first wait that ends after the limit";
  EXPECT_EQ(store_->WaitForLayerFor(1, absl::ZeroDuration()), absl::StatusOr<bool>(false));
  EXPECT_EQ(store_->WaitForLayerFor(0, absl::ZeroDuration()), absl::StatusOr<bool>(true));
  clock_.in_wait_ = [this] { asked_[0].done(Values(3, 1.0f, Step(1))); };
  EXPECT_EQ(store_->WaitForLayerFor(1, absl::Seconds(5)), absl::StatusOr<bool>(true));
  store_->Fail(absl::AbortedError("the job has failed"));
  EXPECT_EQ(store_->WaitForLayerFor(1, absl::Seconds(5)).status(),
            absl::AbortedError("the job has failed"));
}

TEST_F(ParameterStoreTest, AnExactPullAsksForFloat32AndTakesIt) {
  store_ = ParameterStore::Create(WithCodecs("float32")).value();
  store_->PullAllExactly(Step(0));
  ASSERT_EQ(asked_.size(), 3u);
  for (Asked& asked : asked_) {
    EXPECT_TRUE(PullsFloat32(asked.request));
    asked.done(Values(asked.request.destination.size(), 1.5f, Step(0)));
  }
  ASSERT_TRUE(store_->WaitForAll().ok());
  EXPECT_THAT(store_->values()[1], testing::ElementsAre(1.5, 1.5, 1.5));
  EXPECT_EQ(store_->traffic().bytes_pulled, 0u) << "no part of the training";
}

TEST_F(ParameterStoreTest, WithAMirrorEncodedPushesAreSentAtOnce) {
  RecordingMirror mirror;
  ParameterStore::Options options = WithCodecs("int8");
  options.mirror = &mirror;
  store_ = ParameterStore::Create(options).value();
  store_->PushPull(/*layer=*/1, Step(0));
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(CodecOf(asked_[0].request), CodecType::kInt8);
}

TEST_F(ParameterStoreTest, AMirrorGetsEncodedValues) {
  RecordingMirror mirror;
  ParameterStore::Options options = WithCodecs("float32");
  options.mirror = &mirror;
  store_ = ParameterStore::Create(options).value();
  store_->PullAll(Step(0));
  asked_[2].done(Ones(3));
  ASSERT_TRUE(store_->WaitForLayer(1).ok());
  EXPECT_THAT(mirror.told_, testing::ElementsAre(
                                "table 1 slice 0: 6 bytes of codec 2, the first 128", "layer 1"));
}

TEST_F(ParameterStoreTest, AReplyOfTheWrongLengthOrCodecIsAnError) {
  for (ExchangeReply& reply : std::vector<ExchangeReply>{Values(15, 1.0f, Step(0)), Ones(30)}) {
    store_ = ParameterStore::Create(StoreOptions()).value();
    asked_.clear();
    store_->PullAll(Step(0));
    asked_[0].done(reply);
    EXPECT_EQ(store_->WaitForAll().message(),
              absl::StrCat("slice 0 of table : a server sent 60 bytes of codec ",
                           static_cast<int>(reply.codec),
                           " for a slice of 64 bytes of codec 1 (float32)"));
  }
}

}  // namespace
}  // namespace capstan
