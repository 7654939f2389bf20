// The own state of an engine, as the store sends and pulls it.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/base/mutex.h"
#include "common/exchange/payload.h"
#include "common/scheduler/transfer_queue.h"
#include "worker/client/own_state.h"
#include "worker/client/parameter_store.h"

namespace capstan {
namespace {

Payload Floats(size_t count, float value) {
  const auto floats = std::make_shared<std::vector<float>>(count, value);
  return Payload(absl::MakeConstSpan(*floats), floats);
}

// Keeps exchanges until the test answers them.
class AskedEndpoint : public ParameterEndpoint {
 public:
  struct Asked {
    ExchangeRequest request;
    ReplyCallback done;
  };
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    asked.push_back({std::move(request), std::move(done)});
  }

  std::vector<Asked> asked;
};

// One array, of sevens.
class RecordingState : public OwnState {
 public:
  uint32_t arrays() const override { return 1; }
  Payload Save(SliceKey key) override { return Floats(key.slice == SliceIndex(0) ? 16 : 4, 7.0f); }
  void Load(SliceKey key, absl::Span<const float> state) override {
    loaded_[key].assign(state.begin(), state.end());
  }

  std::map<SliceKey, std::vector<float>> loaded_;
};

// Answers the last exchange when somebody waits.
class AnsweringClock : public FakeClock {
 public:
  bool WaitUntil(Mutex& mutex, CondVar&, absl::Time) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    ++waits_;
    mutex.Unlock();
    endpoint_->asked.back().done(ExchangeReply());
    mutex.Lock();
    return true;
  }

  AskedEndpoint* endpoint_ = nullptr;
  int waits_ = 0;
};

// A store of one table with slices of 16 and 4 floats, whose engine has own state.
class OwnStateTest : public testing::Test {
 protected:
  OwnStateTest() {
    clock_.endpoint_ = &endpoint_;
    ParameterStore::Options options;
    options.clock = &clock_;
    options.client = &endpoint_;
    options.scheduler = &scheduler_;
    options.sender = {/*job=*/0, WorkerId(2), Incarnation(77)};
    options.slice_bytes = 64;
    options.tables.resize(1);
    options.tables[0].add_shape(20);
    options.own_state = &state_;
    options.last_pull_step = Step(9);
    store_ = ParameterStore::Create(options).value();
  }
  const std::vector<AskedEndpoint::Asked>& asked() const { return endpoint_.asked; }
  void Answer(size_t i, ExchangeReply reply) { endpoint_.asked[i].done(std::move(reply)); }
  // Answers request `i` with this number of values, after the slice's `cut`.
  void Answer(size_t i, size_t count, uint64_t cut) {
    ExchangeReply reply;
    reply.values = Floats(count, 1.0f);
    reply.cut = cut;
    Answer(i, std::move(reply));
  }

  const SliceKey first_{TableId(0), SliceIndex(0)};
  const SliceKey second_{TableId(0), SliceIndex(1)};
  RecordingState state_;
  AnsweringClock clock_;
  AskedEndpoint endpoint_;
  Scheduler scheduler_{/*credit_bytes=*/1 << 20, std::make_unique<FifoQueue>()};
  std::unique_ptr<ParameterStore> store_;
};

TEST_F(OwnStateTest, IsSentOnceForEachCutBeforeTheLayerIsDone) {
  store_->PullAll(Step(0));
  Answer(0, 16, /*cut=*/0);
  Answer(1, 4, /*cut=*/1);
  ASSERT_EQ(asked().size(), 3u);
  const ExchangeRequest& sent = asked()[2].request;
  ASSERT_TRUE(std::holds_alternative<WorkerState>(sent.purpose));
  EXPECT_EQ(std::get<WorkerState>(sent.purpose).cut, 1u);
  EXPECT_EQ(sent.slice, second_);
  EXPECT_EQ(sent.sender.worker, WorkerId(2));
  EXPECT_EQ(sent.sender.incarnation, Incarnation(77));
  EXPECT_EQ(PayloadBytes(sent), 16u);
  ASSERT_TRUE(store_->WaitForLayer(0).ok());
  EXPECT_EQ(clock_.waits_, 1) << "it waits until the server has the state";

  store_->PushPull(/*layer=*/0, Step(0));
  Answer(3, 16, /*cut=*/1);
  Answer(4, 4, /*cut=*/1);
  ASSERT_EQ(asked().size(), 6u) << "the server has that of the second slice";
  EXPECT_EQ(asked()[5].request.slice, first_);
}

TEST_F(OwnStateTest, IsSentUnaskedAfterTheLastStepOnce) {
  store_->PushPull(/*layer=*/0, Step(8));
  Answer(0, 16, /*cut=*/3);
  Answer(1, 4, /*cut=*/0);
  ASSERT_EQ(asked().size(), 4u);
  for (const size_t i : {2, 3}) {
    EXPECT_EQ(std::get<WorkerState>(asked()[i].request.purpose).cut, kFinalCut);
    Answer(i, ExchangeReply());
  }
  ASSERT_TRUE(store_->WaitForAll().ok());
  store_->PullAll(Step(9));
  Answer(4, 16, /*cut=*/4);
  EXPECT_EQ(asked().size(), 6u) << "an evaluation asks for nothing";
}

TEST_F(OwnStateTest, IsSentOnceWhenTheWorkerEndsEarlier) {
  store_->PushPull(/*layer=*/0, Step(3));
  Answer(0, 16, /*cut=*/1);
  Answer(1, 4, /*cut=*/0);
  ASSERT_EQ(asked().size(), 3u);
  Answer(2, ExchangeReply());
  store_->PushLastOwnState();
  ASSERT_EQ(asked().size(), 5u) << "of both slices";
  for (const size_t i : {3, 4}) {
    EXPECT_EQ(std::get<WorkerState>(asked()[i].request.purpose).cut, kFinalCut);
  }
  EXPECT_EQ(asked()[4].request.slice, second_);
  Answer(3, ExchangeReply());
  ASSERT_TRUE(store_->WaitForAll().ok());
  EXPECT_EQ(clock_.waits_, 1) << "it waits until the servers have the states";
  store_->PushLastOwnState();
  EXPECT_EQ(asked().size(), 5u);
}

TEST_F(OwnStateTest, IsLoadedIfTheCheckpointHasIt) {
  store_->PullOwnState();
  ASSERT_EQ(asked().size(), 2u);
  for (const AskedEndpoint::Asked& asked : asked()) {
    EXPECT_TRUE(std::holds_alternative<WorkerStatePull>(asked.request.purpose));
  }
  Answer(0, ExchangeReply());
  ExchangeReply state;
  state.values = Floats(4, 5.0f);
  Answer(1, std::move(state));
  ASSERT_TRUE(store_->WaitForAll().ok());
  EXPECT_EQ(state_.loaded_.count(first_), 0u) << "it stays zero";
  EXPECT_EQ(state_.loaded_[second_], std::vector<float>(4, 5.0f));
}

TEST_F(OwnStateTest, OfAnotherLengthIsAnError) {
  store_->PullOwnState();
  Answer(0, 15, /*cut=*/0);
  EXPECT_EQ(store_->WaitForAll().message(), "a server sent 60 bytes for an own state of 64");
}

}  // namespace
}  // namespace capstan
