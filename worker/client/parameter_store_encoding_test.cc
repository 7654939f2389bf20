// When a store without a mirror encodes gradients, and in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"
#include "common/exchange/request_parts.h"
#include "common/scheduler/transfer_queue.h"
#include "worker/client/parameter_store.h"

namespace capstan {
namespace {

// Keeps requests. The test answers.
class AskedEndpoint : public ParameterEndpoint {
 public:
  struct Asked {
    ExchangeRequest request;
    ReplyCallback done;
  };

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    if (has_no_memory) throw std::bad_alloc();
    delivered();
    asked.push_back({std::move(request), std::move(done)});
  }

  bool has_no_memory = false;
  std::vector<Asked> asked;
};

// Pushes int8. Layer 0 has a table of 20 floats (slices of 16 and 4), layer 1 one of 3.
class EncodedPushesTest : public testing::Test {
 protected:
  EncodedPushesTest() { Create(v1::SchedulerSpec::PRIORITY); }

  void Create(v1::SchedulerSpec::Policy policy) {
    ParameterStore::Options options;
    options.clock = &clock_;
    options.client = &endpoint_;
    options.scheduler = &scheduler_;
    options.sender.worker = WorkerId(2);
    options.slice_bytes = 64;
    options.policy = policy;
    options.tables.resize(2);
    options.tables[0].add_shape(20);
    options.tables[1].add_shape(3);
    options.tables[1].set_layer(1);
    options.codecs.resize(2);
    for (TableCodecs& codecs : options.codecs) codecs.push = MakeCodec("int8").value();
    endpoint_.asked.clear();
    store_ = ParameterStore::Create(options).value();
  }

  // Gradients are encoded in timers.
  void RunTimers() { clock_.Advance(absl::ZeroDuration()); }

  // By the order of their requests.
  std::vector<uint32_t> AskedTables() const {
    std::vector<uint32_t> tables;
    for (const auto& asked : endpoint_.asked) {
      tables.push_back(asked.request.slice.table.value());
    }
    return tables;
  }

  FakeClock clock_;
  AskedEndpoint endpoint_;
  Scheduler scheduler_{/*credit_bytes=*/1 << 20, std::make_unique<FifoQueue>()};
  std::unique_ptr<ParameterStore> store_;
};

TEST_F(EncodedPushesTest, AreEncodedInTheOrderOfThePriority) {
  store_->PushPull(/*layer=*/1, Step(0));
  store_->PushPull(/*layer=*/0, Step(0));
  RunTimers();
  EXPECT_THAT(AskedTables(), testing::ElementsAre(0, 0, 1));
}

TEST_F(EncodedPushesTest, AreEncodedFirstInFirstOutWithoutPriority) {
  Create(v1::SchedulerSpec::SLICE_FIFO);
  store_->PushPull(/*layer=*/1, Step(0));
  store_->PushPull(/*layer=*/0, Step(0));
  RunTimers();
  EXPECT_THAT(AskedTables(), testing::ElementsAre(1, 0, 0));
}

TEST_F(EncodedPushesTest, AreEncodedAfterTheCallOneByOneAndOtherTimersComeBetween) {
  store_->PushPull(/*layer=*/0, Step(0));
  EXPECT_TRUE(endpoint_.asked.empty());
  EXPECT_EQ(store_->WaitForLayerFor(0, absl::ZeroDuration()), absl::StatusOr<bool>(false));
  size_t asked_between = 0;
  clock_.RunAfter(absl::ZeroDuration(), [&] { asked_between = endpoint_.asked.size(); });
  RunTimers();
  EXPECT_EQ(asked_between, 1u);
  ASSERT_EQ(endpoint_.asked.size(), 2u);
  EXPECT_EQ(CodecOf(endpoint_.asked[1].request), CodecType::kInt8);
  EXPECT_EQ(endpoint_.asked[1].request.slice.slice, SliceIndex(1));
  for (auto& asked : endpoint_.asked) {
    const auto values = std::make_shared<std::vector<float>>(asked.request.destination.size());
    ExchangeReply reply;
    reply.values = Payload(absl::MakeConstSpan(*values), values);
    asked.done(reply);
  }
  EXPECT_TRUE(store_->WaitForLayer(0).ok());
}

TEST_F(EncodedPushesTest, AGradientThatIsNotFiniteEndsTheWait) {
  store_->gradients()[0][17] = std::numeric_limits<float>::quiet_NaN();
  store_->PushPull(/*layer=*/0, Step(3));
  RunTimers();
  EXPECT_EQ(endpoint_.asked.size(), 1u);
  EXPECT_THAT(std::string(store_->WaitForLayer(0).message()),
              testing::StartsWith("worker 2, step 3, slice 1 of table : "));
}

TEST_F(EncodedPushesTest, CancelDropsThoseThatWait) {
  store_->PushPull(/*layer=*/0, Step(0));
  store_->CancelPushes();
  RunTimers();
  EXPECT_TRUE(endpoint_.asked.empty());
}

TEST_F(EncodedPushesTest, CancelDropsThoseThatCome) {
  store_->CancelPushes();
  store_->PushPull(/*layer=*/0, Step(0));
  RunTimers();
  EXPECT_TRUE(endpoint_.asked.empty());
}

TEST_F(EncodedPushesTest, WantOfMemoryEndsTheWait) {
  endpoint_.has_no_memory = true;
  store_->PushPull(/*layer=*/0, Step(0));
  RunTimers();
  EXPECT_EQ(store_->WaitForLayer(0),
            absl::ResourceExhaustedError("a gradient could not be encoded for want of memory; give "
                                         "the program more of it"));
}

}  // namespace
}  // namespace capstan
