#include "worker/client/row_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/codec/key_list.h"
#include "common/exchange/request_parts.h"
#include "common/scheduler/transfer_queue.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

constexpr uint32_t kShards = 4;
constexpr size_t kDim = 2;
constexpr TableId kTable(1);
constexpr Sender kSender = {/*job=*/0, WorkerId(3), Incarnation()};

using Keys = std::vector<uint64_t>;

std::vector<float> FloatsOf(const Gradient& gradient) {
  std::vector<float> floats(gradient.bytes.size_bytes() / sizeof(float));
  gradient.bytes.CopyTo(absl::MakeSpan(floats));
  return floats;
}
Keys KeysOf(const KeyList& list) {
  Keys keys(list.rows);
  const Payload bytes = list.bytes.InOnePiece();
  EXPECT_EQ(DecodeKeyList(bytes.piece(), absl::MakeSpan(keys)).value(), bytes.size_bytes());
  EXPECT_EQ(HashKeyList(bytes.piece()), list.hash);
  return keys;
}

// Plain rows: a push is added to them. Remembers the keys that were pulled, by their hash.
class FakeServers : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    requests.push_back(request);
    ExchangeReply reply;
    reply.version = 7;
    const RowStep& step = RowStepOf(request);
    if (step.pushed_keys.rows > 0) {
      const KeyList& list = step.pushed_keys;
      if (!list.bytes.empty()) pulled_[list.hash] = KeysOf(list);
      if (forgets) pulled_.clear();
      forgets = false;
      const auto found = pulled_.find(list.hash);
      if (found == pulled_.end()) return done(ErrorReply(absl::NotFoundError("send the keys")));
      const std::vector<float> gradient = FloatsOf(*step.push->gradient);
      EXPECT_EQ(gradient.size(), list.rows * kDim);
      for (size_t i = 0; i < gradient.size(); ++i) {
        rows[found->second[i / kDim]][i % kDim] += gradient[i];
      }
    }
    if (step.pulled_keys.rows > 0) {
      const Keys keys = KeysOf(step.pulled_keys);
      pulled_[step.pulled_keys.hash] = keys;
      const auto values = std::make_shared<std::vector<float>>();
      for (const uint64_t key : keys) {
        values->insert(values->end(), rows[key].begin(), rows[key].end());
      }
      reply.values = Payload(*values, values);
    }
    if (refuses) return done(ErrorReply(absl::InvalidArgumentError("refused")));
    if (holds) return held_.push_back({std::move(done), std::move(reply)});
    done(std::move(reply));
  }

  void AnswerHeld() {
    for (auto& [done, reply] : std::exchange(held_, {})) done(std::move(reply));
  }

  std::map<uint64_t, std::array<float, kDim>> rows;
  std::vector<ExchangeRequest> requests;
  bool forgets = false;
  bool refuses = false;
  bool holds = false;  // until AnswerHeld

 private:
  std::vector<std::pair<ReplyCallback, ExchangeReply>> held_;
  std::map<uint64_t, Keys> pulled_;
};

class RowStoreTest : public testing::Test {
 protected:
  RowStoreTest()
      : scheduler_(1 << 20, MakeTransferQueue(v1::SchedulerSpec::PRIORITY)),
        exchanges_({&clock_, &servers_, &scheduler_, kSender}, /*layer_count=*/1,
                   /*table_count=*/2),
        store_(MakeStore(kDim)) {}

  std::unique_ptr<RowStore> MakeStore(uint32_t dim) {
    RowStore::Options options;
    options.exchanges = &exchanges_;
    options.tables.resize(2);
    options.tables[0].add_shape(5);
    options.tables[1].set_name("items");
    options.tables[1].mutable_sparse()->set_dim(dim);
    options.codecs.resize(2);
    options.shard_count = kShards;
    return std::make_unique<RowStore>(options);
  }

  std::vector<float> Read(const Keys& keys) {
    std::vector<float> rows(keys.size() * kDim);
    store_->ReadRows(kTable, absl::MakeSpan(rows));
    return rows;
  }

  FakeClock clock_;
  FakeServers servers_;
  Scheduler scheduler_;
  WorkerExchanges exchanges_;
  std::unique_ptr<RowStore> store_;
};

TEST_F(RowStoreTest, RowsComeInTheOrderOfTheKeys) {
  servers_.rows[900] = {1, 2};
  servers_.rows[3] = {5, 6};
  const Keys keys = {900, 3, 900, 17};
  ASSERT_TRUE(store_->Pull(kTable, keys, Step(0)).ok());
  EXPECT_TRUE(store_->WaitFor(kTable, absl::ZeroDuration()).value());
  EXPECT_EQ(Read(keys), (std::vector<float>{1, 2, 5, 6, 1, 2, 0, 0}));
}

TEST_F(RowStoreTest, APushReachesAllShardsAndAddsUpTheGradientsOfAKey) {
  const Keys keys = {8, 5, 8};
  ASSERT_TRUE(store_->Push(kTable, keys, {1, 10, 2, 20, 4, 40}, Step(0)).ok());
  EXPECT_EQ(servers_.rows[8], (std::array<float, kDim>{5, 50}));
  EXPECT_EQ(servers_.rows[5], (std::array<float, kDim>{2, 20}));
  std::set<uint32_t> shards;
  for (const ExchangeRequest& request : servers_.requests) {
    shards.insert(request.slice.slice.value());
    EXPECT_EQ(PushStepOf(request), Step(0));
    EXPECT_EQ(PullStepOf(request), Step(1));
    EXPECT_EQ(HasEmptyPush(request), RowStepOf(request).pushed_keys.rows == 0);
    EXPECT_EQ(PushOf(request)->base_version, std::nullopt) << "nothing was pulled";
  }
  EXPECT_EQ(shards.size(), kShards);
  EXPECT_EQ(servers_.requests.size(), kShards);
}

TEST_F(RowStoreTest, TheKeysOfAPullAreNotSentAgain) {
  const Keys keys = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_TRUE(store_->Pull(kTable, keys, Step(0)).ok());
  servers_.requests.clear();
  const std::vector<float> gradients(keys.size() * kDim, 1);
  ASSERT_TRUE(store_->Push(kTable, keys, gradients, Step(0)).ok());
  for (const ExchangeRequest& request : servers_.requests) {
    EXPECT_TRUE(RowStepOf(request).pushed_keys.bytes.empty());
    if (RowStepOf(request).pushed_keys.rows > 0) {
      EXPECT_EQ(PushOf(request)->base_version, 7u);
    }
  }
  EXPECT_EQ(servers_.rows[4], (std::array<float, kDim>{1, 1}));
  EXPECT_TRUE(store_->WaitFor(kTable, absl::ZeroDuration()).value());

  // They were of another step.
  servers_.requests.clear();
  ASSERT_TRUE(store_->Push(kTable, keys, gradients, Step(1)).ok());
  for (const ExchangeRequest& request : servers_.requests) {
    EXPECT_EQ(RowStepOf(request).pushed_keys.bytes.empty(), HasEmptyPush(request));
  }
}

TEST_F(RowStoreTest, AServerThatHasForgottenTheKeysGetsThem) {
  const Keys keys = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_TRUE(store_->Pull(kTable, keys, Step(0)).ok());
  servers_.forgets = true;
  ASSERT_TRUE(
      store_->Push(kTable, keys, std::vector<float>(keys.size() * kDim, 1), Step(0), {9}).ok());
  EXPECT_TRUE(store_->WaitFor(kTable, absl::ZeroDuration()).value());
  for (const uint64_t key : keys) EXPECT_EQ(servers_.rows[key][0], 1) << key;
}

TEST_F(RowStoreTest, RowsThatWereFetchedAheadAreNotAskedForAgain) {
  servers_.rows[30] = {3, 4};
  ASSERT_TRUE(store_->Push(kTable, {}, {}, Step(0), {30, 31}).ok());
  servers_.requests.clear();
  ASSERT_TRUE(store_->Pull(kTable, {30, 31}, Step(1)).ok());
  EXPECT_TRUE(servers_.requests.empty());
  EXPECT_EQ(Read({30, 31}), (std::vector<float>{3, 4, 0, 0}));
  ASSERT_TRUE(store_->Push(kTable, {30, 31}, {1, 1, 1, 1}, Step(1)).ok());
  for (const ExchangeRequest& request : servers_.requests) {
    EXPECT_TRUE(RowStepOf(request).pushed_keys.bytes.empty());
  }
  ASSERT_TRUE(store_->Pull(kTable, {30, 32}, Step(2)).ok());
  EXPECT_EQ(Read({30, 32}), (std::vector<float>{4, 5, 0, 0}));
}

TEST_F(RowStoreTest, RowsOfThePullBeforeTheLastOneStay) {
  servers_.rows[1] = {1, 2};
  servers_.rows[2] = {3, 4};
  ASSERT_TRUE(store_->Pull(kTable, {1, 2, 1}, Step(0)).ok());
  ASSERT_TRUE(store_->Pull(kTable, {2}, Step(0)).ok());
  EXPECT_EQ(Read({2}), (std::vector<float>{3, 4}));
  std::vector<float> earlier(3 * kDim);
  store_->ReadEarlierRows(kTable, absl::MakeSpan(earlier));
  EXPECT_EQ(earlier, (std::vector<float>{1, 2, 3, 4, 1, 2}));
}

TEST_F(RowStoreTest, AnExchangeBeginsWhenThoseBeforeItHaveEnded) {
  servers_.rows[30] = {3, 4};
  servers_.holds = true;
  ASSERT_TRUE(store_->Push(kTable, {1}, {1, 10}, Step(0)).ok());
  EXPECT_FALSE(store_->WaitFor(kTable, absl::ZeroDuration()).value());
  servers_.requests.clear();
  std::thread next([this] {
    EXPECT_TRUE(store_->Push(kTable, {1, 2}, {2, 20, 3, 30}, Step(1), {30}).ok());
  });
  EXPECT_TRUE(servers_.requests.empty());
  servers_.holds = false;
  servers_.AnswerHeld();
  next.join();
  EXPECT_EQ(servers_.requests.size(), kShards);
  EXPECT_EQ(servers_.rows[1], (std::array<float, kDim>{3, 30}));
  EXPECT_EQ(servers_.rows[2], (std::array<float, kDim>{3, 30}));
  EXPECT_EQ(Read({30}), (std::vector<float>{3, 4}));
}

TEST_F(RowStoreTest, ABatchMustFitIntoMessages) {
  constexpr uint32_t kLongRow = 1024;
  const std::unique_ptr<RowStore> store = MakeStore(kLongRow);
  Keys keys(kMaxSliceBytes / sizeof(float) / kLongRow * kShards + kShards);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const absl::Status status = store->Pull(kTable, keys, Step(0));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("rows of one shard"), absl::string_view::npos) << status;
  EXPECT_TRUE(servers_.requests.empty());
}

TEST_F(RowStoreTest, ALearningRateGoesWithThePush) {
  exchanges_.SetLearningRate(kTable, 0.25);
  ASSERT_TRUE(store_->Push(kTable, {1}, {1, 1}, Step(0)).ok());
  for (const ExchangeRequest& request : servers_.requests) {
    EXPECT_EQ(PushOf(request)->rates.learning_rate, 0.25) << "all shards hear of it";
  }
}

TEST_F(RowStoreTest, AnErrorEndsAllWaits) {
  servers_.refuses = true;
  ASSERT_TRUE(store_->Push(kTable, {1}, {1, 1}, Step(0)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(store_->WaitFor(kTable, absl::ZeroDuration()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(exchanges_.WaitForAll()));
}

TEST_F(RowStoreTest, TrafficCountsPayloads) {
  ASSERT_TRUE(store_->Push(kTable, {1, 2}, {1, 1, 1, 1}, Step(0), {4}).ok());
  const StoreTraffic traffic = exchanges_.traffic().traffic();
  EXPECT_EQ(traffic.exchanges, kShards);
  EXPECT_EQ(traffic.float_bytes_pushed, 2 * kDim * sizeof(float));
  EXPECT_EQ(traffic.bytes_pulled, kDim * sizeof(float));
  EXPECT_GT(traffic.bytes_pushed, traffic.float_bytes_pushed) << "keys";
}

}  // namespace
}  // namespace capstan
