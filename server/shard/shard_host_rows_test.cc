// Cuts of sparse tables, whose rows are copied while exchanges go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/codec/key_list.h"
#include "common/exchange/request_parts.h"
#include "common/routing/key_shard.h"
#include "common/tensor/slicing.h"
#include "server/shard/cuts.h"
#include "server/shard/one_table_host.h"
#include "server/sparse/row_optimizer.h"

namespace capstan {
namespace {

constexpr size_t kDim = 2;
constexpr ShardId kShard(0);
constexpr TableId kItems(1);

// Enough for several parts of a copy, all in one shard.
std::vector<uint64_t> KeysOfShard() {
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; keys.size() < 60'000; ++key) {
    if (ShardOfKey(key, /*shard_count=*/2) == kShard) keys.push_back(key);
  }
  return keys;
}

// A host with another table, whose rows are minus the number of pushes.
std::unique_ptr<ShardHost> HostWithRows() {
  ShardHost::Options options = HostOptions(ConsistencyMode::kAsync);
  options.tables.push_back({"items", 0, 0, {}});
  RowOptimizer::Options sgd;
  sgd.learning_rate = 1;
  options.tables[1].sparse = ShardHost::SparseTable();
  options.tables[1].sparse->optimizer = RowOptimizer::Create(sgd, kDim).value();
  options.schedules.push_back(options.schedules[0]);
  auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0}));
  return host;
}

// Pushes 1 for each of some keys.
class RowPushes {
 public:
  explicit RowPushes(const std::vector<uint64_t>& keys)
      : gradient_(std::make_shared<std::vector<float>>(keys.size() * kDim, 1.0f)),
        list_(std::make_shared<std::vector<uint8_t>>(MostKeyListBytes(keys.size()))) {
    list_->resize(EncodeKeyList(keys, absl::MakeSpan(*list_)));
    Payload bytes(list_);
    bytes.Append(*list_);
    keys_ = {static_cast<uint32_t>(keys.size()), HashKeyList(*list_), bytes};
  }

  absl::Status Push(ShardHost& host) {
    ExchangeRequest request = Request(0, Step(step_), std::nullopt);
    request.slice = RowsIn(kShard, kItems);
    RowStep step;
    step.push = {Step(step_)};
    step.push->gradient = {Payload(*gradient_, gradient_)};
    step.pushed_keys = keys_;
    request.purpose = std::move(step);
    const absl::Status status = Send(host, std::move(request))->reply.status;
    step_ += status.ok() ? 1 : 0;
    return status;
  }

 private:
  const std::shared_ptr<std::vector<float>> gradient_;
  const std::shared_ptr<std::vector<uint8_t>> list_;
  KeyList keys_;
  int64_t step_ = 0;
};

// The snapshot of the shard with the rows in the latest cut.
ShardSnapshot LatestOf(Cuts& cuts) {
  ShardSnapshot latest;
  for (ShardSnapshot& shard : cuts.shards()) {
    if (shard.shard == kShard) latest = std::move(shard);
  }
  return latest;
}

const SliceSnapshot& RowsOf(const ShardSnapshot& shard) { return shard.slices.back(); }

TEST(ShardHostRowsTest, TheRowsOfACutAreOfItsMomentThoughOthersPushWhileTheyAreCopied) {
  const std::vector<uint64_t> keys = KeysOfShard();
  const auto host = HostWithRows();
  std::atomic<bool> is_over = false;
  std::atomic<int64_t> pushes = 0;
  std::thread worker([&] {
    RowPushes rows(keys);
    while (!is_over) {
      if (rows.Push(*host).ok()) ++pushes;  // Held back now and then.
    }
  });
  for (int i = 0; i < 10; ++i) {
    while (pushes <= 3 * i) std::this_thread::yield();
    Cuts cuts;
    host->CutAt(host->HoldBack(), cuts.Adder());
    ShardSnapshot shard = LatestOf(cuts);
    int parts = 0;
    shard.with_lock = [&, lock = shard.with_lock](absl::FunctionRef<void()> use) {
      const bool is_there = lock(use);
      // After the first part: a push that has begun before, and one that has not.
      if (++parts > 1) return is_there;
      for (const int64_t end = pushes + 2; pushes < end;) std::this_thread::yield();
      return is_there;
    };
    const absl::Status copied = CopyRows(shard);
    EXPECT_GT(parts, 1);
    ASSERT_TRUE(copied.ok()) << copied;
    SortRows(shard);
    const SliceSnapshot& slice = RowsOf(shard);
    ASSERT_EQ(slice.rows->keys, keys);
    EXPECT_EQ(slice.workers.at(0).completed, Step(static_cast<int64_t>(slice.version)));
    const auto expected = -static_cast<float>(slice.version);
    ASSERT_EQ(slice.rows->values, std::vector<float>(keys.size() * kDim, expected));
  }
  is_over = true;
  worker.join();
}

TEST(ShardHostRowsTest, RowsThatChangeAfterACutAreCountedAsCopiesUntilTheyAreCopied) {
  const auto host = HostWithRows();
  const std::vector<uint64_t> keys = KeysOfShard();
  RowPushes all({keys.begin(), keys.begin() + 5000});
  ASSERT_TRUE(all.Push(*host).ok());
  EXPECT_EQ(host->counts().memory.copies, 0u);
  Cuts cuts;
  host->CutAt(host->HoldBack(), cuts.Adder());
  ASSERT_TRUE(all.Push(*host).ok());
  EXPECT_GT(host->counts().memory.copies, 5000 * kDim * sizeof(float));
  ShardSnapshot shard = LatestOf(cuts);
  ASSERT_TRUE(CopyRows(shard).ok());
  SortRows(shard);
  EXPECT_LT(host->counts().memory.copies, 1000u) << "the other shard's, which has no rows";
  EXPECT_EQ(RowsOf(shard).rows->values, std::vector<float>(5000 * kDim, -1.0f));
}

TEST(ShardHostRowsTest, ANewerCutOrTheEndOfTheHostEndsACut) {
  auto host = HostWithRows();
  RowPushes rows(KeysOfShard());
  ASSERT_TRUE(rows.Push(*host).ok());
  Cuts older, newer, last;
  host->CutAt(host->HoldBack(), older.Adder());
  host->CutAt(host->HoldBack(), newer.Adder());
  ShardSnapshot shard = LatestOf(older);
  EXPECT_TRUE(absl::IsAborted(CopyRows(shard)));
  shard = LatestOf(newer);
  EXPECT_TRUE(CopyRows(shard).ok());
  host->CutAt(host->HoldBack(), last.Adder());
  shard = LatestOf(last);
  host = nullptr;
  EXPECT_TRUE(absl::IsAborted(CopyRows(shard)));
}

}  // namespace
}  // namespace capstan
