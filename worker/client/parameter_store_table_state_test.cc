// The state of a table that replies the mean, as the store of worker 0 sends it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/exchange/payload.h"
#include "common/scheduler/transfer_queue.h"
#include "worker/client/parameter_store.h"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

constexpr TableId kMean(0);
constexpr TableId kOther(1);

Payload Values(size_t count) {
  const auto floats = std::make_shared<std::vector<float>>(count, 1.0f);
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

// A store of two tables of 20 floats in slices of 16 and 4. The first one replies the mean, and has
// layer 0; the other one has layer 1.
class TableStateTest : public testing::Test {
 protected:
  TableStateTest() { MakeStore(WorkerId(0)); }

  void MakeStore(WorkerId worker) {
    ParameterStore::Options options;
    options.clock = &clock_;
    options.client = &endpoint_;
    options.scheduler = &scheduler_;
    options.sender = {/*job=*/0, worker, Incarnation(77)};
    options.slice_bytes = 64;
    options.tables.resize(2);
    for (const uint32_t table : {0, 1}) {
      options.tables[table].add_shape(20);
      options.tables[table].set_layer(table);
    }
    options.tables[0].set_replies_mean(true);
    store_ = ParameterStore::Create(options).value();
  }
  // Pushes and pulls the table that replies the mean. The replies tell of these cuts of its slices.
  void DoStep(int64_t step, uint64_t cut_of_first, uint64_t cut_of_second) {
    endpoint_.asked.clear();
    store_->PushPull(/*layer=*/0, Step(step));
    ASSERT_THAT(endpoint_.asked, SizeIs(2));
    Answer(0, 16, cut_of_first);
    Answer(1, 4, cut_of_second);
    endpoint_.asked.clear();
  }
  void Answer(size_t i, size_t count, uint64_t cut) {
    ExchangeReply reply;
    reply.values = Values(count);
    reply.cut = cut;
    endpoint_.asked[i].done(std::move(reply));
  }
  // The parameters are 0, 1, ..., and the optimizer's one array is all sevens.
  void PushState(bool is_last) {
    std::vector<std::vector<float>> arrays(2, std::vector<float>(20, 7));
    for (size_t i = 0; i < 20; ++i) arrays[0][i] = static_cast<float>(i);
    store_->PushTableState(
        kMean, is_last, std::make_shared<const std::vector<std::vector<float>>>(std::move(arrays)));
  }
  void ExpectState(size_t i, uint32_t slice, uint64_t cut) {
    const ExchangeRequest& sent = endpoint_.asked[i].request;
    EXPECT_EQ(sent.slice, (SliceKey{kMean, SliceIndex(slice)}));
    EXPECT_EQ(sent.sender.incarnation, Incarnation(77));
    ASSERT_TRUE(std::holds_alternative<TableState>(sent.purpose));
    const auto& state = std::get<TableState>(sent.purpose);
    EXPECT_EQ(state.cut, cut);
    const size_t size = slice == 0 ? 16 : 4;
    std::vector<float> arrays(2 * size);
    ASSERT_EQ(state.arrays.size_bytes(), arrays.size() * sizeof(float));
    state.arrays.CopyTo(absl::MakeSpan(arrays));
    for (size_t element = 0; element < size; ++element) {
      EXPECT_EQ(arrays[element], static_cast<float>(16 * slice + element));
      EXPECT_EQ(arrays[size + element], 7);
    }
  }

  FakeClock clock_;
  AskedEndpoint endpoint_;
  Scheduler scheduler_{/*credit_bytes=*/1 << 20, std::make_unique<FifoQueue>()};
  std::unique_ptr<ParameterStore> store_;
};

TEST_F(TableStateTest, OnlySlicesThatWereCutAreSentOnceForEachCut) {
  DoStep(0, /*cut_of_first=*/0, /*cut_of_second=*/0);
  EXPECT_FALSE(store_->IsTableStateDue(kMean));
  PushState(/*is_last=*/false);
  EXPECT_THAT(endpoint_.asked, SizeIs(0));

  DoStep(1, /*cut_of_first=*/0, /*cut_of_second=*/1);
  EXPECT_TRUE(store_->IsTableStateDue(kMean));
  EXPECT_EQ(store_->due_table_states(), 1);
  PushState(/*is_last=*/false);
  ASSERT_THAT(endpoint_.asked, SizeIs(1));
  ExpectState(0, /*slice=*/1, /*cut=*/1);
  EXPECT_FALSE(store_->IsTableStateDue(kMean));

  endpoint_.asked[0].done(ExchangeReply());
  DoStep(2, /*cut_of_first=*/1, /*cut_of_second=*/1);
  EXPECT_EQ(store_->due_table_states(), 1) << "the server has that of the second slice";
  PushState(/*is_last=*/false);
  ASSERT_THAT(endpoint_.asked, SizeIs(1));
  ExpectState(0, /*slice=*/0, /*cut=*/1);
  EXPECT_EQ(store_->due_table_states(), 0);
}

TEST_F(TableStateTest, ASliceThatIsCutAgainIsDueForTheLatestCut) {
  DoStep(0, /*cut_of_first=*/1, /*cut_of_second=*/1);
  DoStep(1, /*cut_of_first=*/2, /*cut_of_second=*/1);
  EXPECT_EQ(store_->due_table_states(), 2);
  PushState(/*is_last=*/false);
  ASSERT_THAT(endpoint_.asked, SizeIs(2));
  ExpectState(0, /*slice=*/0, /*cut=*/2);
  ExpectState(1, /*slice=*/1, /*cut=*/1);
}

TEST_F(TableStateTest, TheLastStateIsSentForEverySlice) {
  DoStep(0, /*cut_of_first=*/0, /*cut_of_second=*/1);
  PushState(/*is_last=*/true);
  ASSERT_THAT(endpoint_.asked, SizeIs(2));
  ExpectState(0, /*slice=*/0, kFinalCut);
  ExpectState(1, /*slice=*/1, kFinalCut);
  EXPECT_EQ(store_->due_table_states(), 0);
}

TEST_F(TableStateTest, TheLayerWaitsForTheAnswers) {
  DoStep(0, /*cut_of_first=*/1, /*cut_of_second=*/1);
  ASSERT_TRUE(store_->WaitForLayerFor(/*layer=*/0, absl::ZeroDuration()).value());
  PushState(/*is_last=*/false);
  endpoint_.asked[0].done(ExchangeReply());
  EXPECT_FALSE(store_->WaitForLayerFor(/*layer=*/0, absl::ZeroDuration()).value());
  EXPECT_TRUE(store_->WaitForLayerFor(/*layer=*/1, absl::ZeroDuration()).value());
  endpoint_.asked[1].done(ExchangeReply());
  EXPECT_TRUE(store_->WaitForLayerFor(/*layer=*/0, absl::ZeroDuration()).value());
}

TEST_F(TableStateTest, OtherWorkersAndTablesHaveNone) {
  endpoint_.asked.clear();
  store_->PushPull(/*layer=*/1, Step(0));
  Answer(0, 16, /*cut=*/1);
  Answer(1, 4, /*cut=*/1);
  EXPECT_FALSE(store_->IsTableStateDue(kOther));
  EXPECT_EQ(store_->due_table_states(), 0);

  MakeStore(WorkerId(1));
  DoStep(0, /*cut_of_first=*/1, /*cut_of_second=*/1);
  EXPECT_FALSE(store_->IsTableStateDue(kMean));
  PushState(/*is_last=*/true);
  EXPECT_THAT(endpoint_.asked, SizeIs(0));
}

TEST_F(TableStateTest, AReplyWithAnErrorTellsOfNoCut) {
  store_->PushPull(/*layer=*/0, Step(0));
  ExchangeReply error = ErrorReply(absl::InternalError("broken"));
  error.cut = 1;
  endpoint_.asked[0].done(std::move(error));
  EXPECT_EQ(store_->due_table_states(), 0);
}

TEST_F(TableStateTest, TheFirstPullAsksForTheParametersAndLaterOnesForTheMean) {
  store_->PullAll(Step(0));
  ASSERT_THAT(endpoint_.asked, SizeIs(4));
  for (const AskedEndpoint::Asked& asked : endpoint_.asked) {
    EXPECT_EQ(PullOf(asked.request)->is_float32, asked.request.slice.table == kMean);
  }
  Answer(0, 16, /*cut=*/0);
  Answer(1, 4, /*cut=*/0);
  store_->PushPull(/*layer=*/0, Step(0));
  ASSERT_THAT(endpoint_.asked, SizeIs(6));
  for (const size_t i : {4, 5}) EXPECT_FALSE(PullOf(endpoint_.asked[i].request)->is_float32);
}

TEST_F(TableStateTest, AnArrayThatTheServersDoNotHaveIsMissingAndNoErrorOfTheStore) {
  for (const TableId table : {kMean, kOther}) {
    endpoint_.asked.clear();
    const auto array = std::make_shared<OptimizerArray>();
    array->values.resize(20);
    store_->PullOptimizerState(table, /*array=*/3, array);
    ASSERT_THAT(endpoint_.asked, SizeIs(2));
    for (AskedEndpoint::Asked& asked : endpoint_.asked) {
      EXPECT_EQ(std::get<OptimizerStatePull>(asked.request.purpose).array, 3u);
      asked.done(ErrorReply(absl::InvalidArgumentError("no such array")));
    }
    EXPECT_EQ(array->is_missing, table == kMean);
    EXPECT_THAT(array->values, Each(0));
    EXPECT_EQ(store_->WaitForAll().ok(), table == kMean);
  }
}

}  // namespace
}  // namespace capstan
