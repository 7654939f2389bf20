#include "server/slice/sparse_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "common/base/random.h"
#include "common/codec/key_list.h"
#include "common/exchange/request_parts.h"
#include "common/routing/key_shard.h"
#include "server/consistency/consistency_schedule.h"

namespace capstan {
namespace {

constexpr int kWorkers = 3;
constexpr size_t kDim = 3;
constexpr float kRate = 0.5f;
constexpr uint32_t kShardCount = 4;
constexpr ShardId kShard(2);

using Keys = std::vector<uint64_t>;

// The first `count` keys of the shard.
Keys KeysOfShard(size_t count) {
  Keys keys;
  for (uint64_t key = 0; keys.size() < count; ++key) {
    if (ShardOfKey(key, kShardCount) == kShard) keys.push_back(key);
  }
  return keys;
}

std::vector<uint8_t> Encoded(const Keys& keys) {
  std::vector<uint8_t> bytes(MostKeyListBytes(keys.size()));
  bytes.resize(EncodeKeyList(keys, absl::MakeSpan(bytes)));
  return bytes;
}

// A push of these rows, if it has a step, and a pull of others, if it has one.
struct Rows {
  Keys pushed;
  std::vector<float> gradient;
  Keys pulled;
  bool sends_pushed_keys = true;
};

Payload PayloadWith(const std::vector<uint8_t>& bytes) {
  const auto owned = std::make_shared<std::vector<uint8_t>>(bytes);
  Payload payload(owned);
  payload.Append(*owned);
  return payload;
}

KeyList ListOf(const Keys& keys) {
  if (keys.empty()) return {};
  const std::vector<uint8_t> list = Encoded(keys);
  return {static_cast<uint32_t>(keys.size()), HashKeyList(list), PayloadWith(list)};
}

ExchangeRequest RequestOf(int worker, const Rows& rows, std::optional<Step> push_step,
                          std::optional<Step> pull_step) {
  RowStep step;
  if (push_step.has_value()) step.push = {*push_step};
  if (!rows.pushed.empty()) {
    const auto gradient = std::make_shared<std::vector<float>>(rows.gradient);
    step.push->gradient = {Payload(*gradient, gradient)};
    step.pushed_keys = ListOf(rows.pushed);
    if (!rows.sends_pushed_keys) step.pushed_keys.bytes.Clear();
  }
  if (pull_step.has_value()) {
    step.pull = {*pull_step};
    step.pulled_keys = ListOf(rows.pulled);
  }
  ExchangeRequest request;
  request.sender.worker = WorkerId(worker);
  request.purpose = std::move(step);
  return request;
}

class SparseSliceTest : public testing::Test {
 protected:
  std::unique_ptr<SparseSlice> MakeSlice(ConsistencyMode mode, const char* codec = "float32",
                                         ShardId shard = kShard,
                                         uint32_t shard_count = kShardCount) {
    const ConsistencyPeriod period = {Step(0), mode};
    SparseSlice::Options options;
    options.slice.name = "slice 2 of table items";
    options.slice.schedule = MakeConsistencySchedule({&period, 1}).value();
    options.slice.non_finite_pushes = &non_finite_pushes_;
    options.optimizer = optimizer_.get();
    options.shard = shard;
    options.shard_count = shard_count;
    options.codecs.push = MakeCodec(codec).value();
    options.codecs.pull = MakeCodec(pull_codec_.empty() ? codec : pull_codec_).value();
    options.keeps_open_step = keeps_open_step_;
    options.rows.max_idle_steps = max_idle_steps_;
    options.key_memory = &key_memory_;
    std::unique_ptr<SparseSlice> slice = SparseSlice::Create(std::move(options)).value();
    for (int worker = 0; worker < kWorkers; ++worker) AddWorker(*slice, worker);
    return slice;
  }
  void AddWorker(Slice& slice, int worker) {
    ReleasedReplies released;
    slice.AddWorkers({WorkerId(worker)}, &released);
  }

  // Exchanges, and keeps the replies that become due, by worker.
  void Exchange(Slice& slice, ExchangeRequest request) {
    const uint32_t worker = request.sender.worker.value();
    ReleasedReplies released;
    slice.Exchange(
        std::move(request),
        [this, worker](ExchangeReply reply) { replies_[worker] = std::move(reply); }, &released);
    for (auto& [done, reply] : released) done(std::move(reply));
  }
  ExchangeReply Take(int worker) {
    const auto found = replies_.find(worker);
    if (found == replies_.end()) return ErrorReply(absl::CancelledError("no reply yet"));
    ExchangeReply reply = std::move(found->second);
    replies_.erase(found);
    return reply;
  }
  ExchangeReply ExchangeNow(Slice& slice, ExchangeRequest request) {
    const uint32_t worker = request.sender.worker.value();
    Exchange(slice, std::move(request));
    return Take(static_cast<int>(worker));
  }
  std::vector<float> PullNow(Slice& slice, int worker, const Keys& keys, Step step) {
    const ExchangeReply reply =
        ExchangeNow(slice, RequestOf(worker, {{}, {}, keys}, std::nullopt, step));
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    std::vector<float> values(reply.values.size_bytes() / sizeof(float));
    reply.values.CopyTo(absl::MakeSpan(values));
    return values;
  }

  WorkerCounter non_finite_pushes_;
  ReplyStateBudget key_memory_{1 << 20};
  bool keeps_open_step_ = false;
  std::string pull_codec_;  // empty: that of pushes
  std::optional<int64_t> max_idle_steps_;
  std::unique_ptr<RowOptimizer> optimizer_ = RowOptimizer::Create({}, kDim).value();
  std::map<uint32_t, ExchangeReply> replies_;
};

std::unique_ptr<RowOptimizer> Adagrad() {
  RowOptimizer::Options options;
  options.type = RowOptimizer::Type::kAdagrad;
  options.learning_rate = kRate;
  return RowOptimizer::Create(options, kDim).value();
}

// One loop over all, by the formula of Adagrad.
class Reference {
 public:
  void Apply(uint64_t key, const float* gradient) {
    std::array<float, 2 * kDim>& row = rows_[key];
    for (size_t i = 0; i < kDim; ++i) {
      row[kDim + i] += gradient[i] * gradient[i];
      row[i] -= kRate * gradient[i] / (std::sqrt(row[kDim + i]) + 1e-8f);
    }
  }
  std::vector<float> Values(const Keys& keys) {
    std::vector<float> values;
    for (const uint64_t key : keys) {
      const auto& row = rows_[key];
      values.insert(values.end(), row.begin(), row.begin() + kDim);
    }
    return values;
  }

 private:
  std::map<uint64_t, std::array<float, 2 * kDim>> rows_;
};

void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << i;
}

// A random push of some keys, or of none.
Rows RandomRows(const Keys& keys, Random& random) {
  Rows rows;
  for (const uint64_t key : keys) {
    if (random.UniformInt(3) != 0) continue;
    rows.pushed.push_back(key);
    for (size_t i = 0; i < kDim; ++i) rows.gradient.push_back(random.Normal());
  }
  return rows;
}

TEST_F(SparseSliceTest, BspAppliesTheMeanOfAStepInOrderOfWorkerWhateverTheOrderOfArrival) {
  optimizer_ = Adagrad();
  const Keys keys = KeysOfShard(200);
  constexpr uint64_t kSeed = 3;
  std::vector<std::vector<float>> results;
  for (const std::array<int, kWorkers> order : {std::array{0, 1, 2}, {2, 0, 1}}) {
    Random gradients(kSeed);
    const auto slice = MakeSlice(ConsistencyMode::kBsp);
    Reference reference;
    for (int64_t step = 0; step < 10; ++step) {
      std::array<Rows, kWorkers> pushes;
      std::map<uint64_t, std::array<float, kDim>> sums;
      for (Rows& rows : pushes) {
        rows = RandomRows(keys, gradients);
        for (size_t i = 0; i < rows.pushed.size() * kDim; ++i) {
          sums[rows.pushed[i / kDim]][i % kDim] += rows.gradient[i];
        }
        rows.pulled = keys;
      }
      for (auto& [key, sum] : sums) {
        for (float& element : sum) element /= kWorkers;
        reference.Apply(key, sum.data());
      }
      for (const int worker : order) {
        EXPECT_TRUE(replies_.empty()) << "step " << step << " is not complete";
        Exchange(*slice, RequestOf(worker, pushes[worker], Step(step), Step(step + 1)));
      }
      for (int worker = 0; worker < kWorkers; ++worker) {
        const ExchangeReply reply = Take(worker);
        ASSERT_TRUE(reply.status.ok()) << reply.status;
        EXPECT_EQ(reply.version, step + 1);
        std::vector<float> values(keys.size() * kDim);
        reply.values.CopyTo(absl::MakeSpan(values));
        ExpectNear(values, reference.Values(keys));
      }
    }
    results.push_back(PullNow(*slice, 0, keys, Step(10)));
  }
  EXPECT_EQ(results[0], results[1]) << "seed " << kSeed;
}

TEST_F(SparseSliceTest, AStepWithoutGradientsChangesNothing) {
  const auto slice = MakeSlice(ConsistencyMode::kBsp);
  for (int worker = 0; worker < kWorkers; ++worker) {
    Exchange(*slice, RequestOf(worker, {}, Step(0), Step(1)));
  }
  const ExchangeReply reply = Take(1);
  EXPECT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.version, 0);
  EXPECT_EQ(reply.min_step, Step(1));
}

// All workers push the rows; worker 0 pulls the keys at the next step, and gets the reply.
ExchangeReply DoStep(SparseSlice& slice, const Rows& rows, int64_t step) {
  ExchangeReply of_worker_0;
  for (int worker = 0; worker < kWorkers; ++worker) {
    ReleasedReplies released;
    slice.Exchange(
        RequestOf(worker, rows, Step(step), Step(step + 1)),
        [&, worker](ExchangeReply reply) {
          if (worker == 0) of_worker_0 = std::move(reply);
        },
        &released);
    for (auto& [done, reply] : released) done(std::move(reply));
  }
  return of_worker_0;
}

std::vector<uint8_t> BytesOf(const ExchangeReply& reply) {
  std::vector<uint8_t> bytes(reply.values.size_bytes());
  const Payload piece = reply.values.InOnePiece();
  std::copy(piece.piece().begin(), piece.piece().end(), bytes.begin());
  return bytes;
}

TEST_F(SparseSliceTest, TheLatestStepCanBeDoneAgainWithTheRowsBeforeItAlsoAnEmptyOne) {
  keeps_open_step_ = true;
  max_idle_steps_ = 2;
  const Keys keys = KeysOfShard(40);
  constexpr uint64_t kSeed = 5;
  for (const char* codec : {"float32", "int8"}) {
    pull_codec_ = codec;
    Random random(kSeed);
    const auto slice = MakeSlice(ConsistencyMode::kBsp);
    ExchangeReply before = ExchangeNow(*slice, RequestOf(0, {{}, {}, keys}, std::nullopt, Step(0)));
    for (int64_t step = 0; step < 8; ++step) {
      Rows rows = step == 5 ? Rows() : RandomRows(keys, random);
      rows.pulled = keys;
      const ExchangeReply next = DoStep(*slice, rows, step);
      ASSERT_TRUE(next.status.ok()) << next.status;
      ReleasedReplies none;
      slice->EnterWorker(WorkerId(1), Step(step), &none);
      for (const Keys& pulled : {keys, Keys()}) {
        const ExchangeReply again =
            ExchangeNow(*slice, RequestOf(1, {{}, {}, pulled}, std::nullopt, Step(step)));
        ASSERT_TRUE(again.status.ok()) << again.status;
        EXPECT_EQ(again.version, before.version);
        EXPECT_EQ(again.min_step, Step(step));
        const auto expected = pulled.empty() ? std::vector<uint8_t>() : BytesOf(before);
        EXPECT_EQ(BytesOf(again), expected) << codec << ", step " << step << ", seed " << kSeed;
      }
      EXPECT_EQ(BytesOf(next) == BytesOf(before), step == 5);
      before = next;
    }
    const ExchangeReply late =
        ExchangeNow(*slice, RequestOf(0, {{}, {}, keys}, std::nullopt, Step(7)));
    EXPECT_TRUE(absl::IsFailedPrecondition(late.status)) << "the worker has newer rows";
  }
}

TEST_F(SparseSliceTest, APushNamesTheKeysOfItsPull) {
  const auto slice = MakeSlice(ConsistencyMode::kAsync);
  const Keys keys = KeysOfShard(20);
  PullNow(*slice, 0, keys, Step(0));
  Rows rows = {keys, std::vector<float>(keys.size() * kDim, 1), keys, /*sends_pushed_keys=*/false};
  EXPECT_TRUE(ExchangeNow(*slice, RequestOf(0, rows, Step(0), Step(1))).status.ok());
  // The same keys, pulled again with that push, are there for the next one.
  EXPECT_TRUE(ExchangeNow(*slice, RequestOf(0, rows, Step(1), std::nullopt)).status.ok());
  EXPECT_EQ(PullNow(*slice, 0, {keys[7]}, Step(2))[0], PullNow(*slice, 0, keys, Step(2))[0]);

  // But not for the one after it, and not for other workers.
  const ExchangeReply late = ExchangeNow(*slice, RequestOf(0, rows, Step(2), std::nullopt));
  EXPECT_TRUE(late.status.ok()) << "pulled at step 2";
  const ExchangeReply gone = ExchangeNow(*slice, RequestOf(0, rows, Step(3), std::nullopt));
  EXPECT_TRUE(absl::IsNotFound(gone.status)) << gone.status;
  const ExchangeReply other = ExchangeNow(*slice, RequestOf(1, rows, Step(0), std::nullopt));
  EXPECT_TRUE(absl::IsNotFound(other.status)) << other.status;
  rows.sends_pushed_keys = true;
  EXPECT_TRUE(ExchangeNow(*slice, RequestOf(0, rows, Step(3), std::nullopt)).status.ok());
}

TEST_F(SparseSliceTest, KeysOfAnotherPullAreNotTaken) {
  const auto slice = MakeSlice(ConsistencyMode::kAsync);
  const Keys keys = KeysOfShard(20);
  PullNow(*slice, 0, {keys[0], keys[1]}, Step(0));
  const Rows rows = {{keys[2], keys[3]}, std::vector<float>(2 * kDim), {}, false};
  const ExchangeReply reply = ExchangeNow(*slice, RequestOf(0, rows, Step(0), std::nullopt));
  EXPECT_TRUE(absl::IsNotFound(reply.status)) << reply.status;
}

TEST_F(SparseSliceTest, KeysAreKeptWithinTheMemoryForThem) {
  const Keys keys = KeysOfShard(20);
  const Rows rows = {keys, std::vector<float>(keys.size() * kDim), {}, false};
  {
    const auto slice = MakeSlice(ConsistencyMode::kAsync);
    ASSERT_TRUE(key_memory_.Take((1 << 20) - 200));
    PullNow(*slice, 0, keys, Step(0));  // takes 160 bytes
    PullNow(*slice, 1, keys, Step(0));
    EXPECT_TRUE(ExchangeNow(*slice, RequestOf(0, rows, Step(0), std::nullopt)).status.ok());
    EXPECT_TRUE(
        absl::IsNotFound(ExchangeNow(*slice, RequestOf(1, rows, Step(0), std::nullopt)).status));
    PullNow(*slice, 2, keys, Step(0));
    EXPECT_EQ(slice->memory().copies, 160u);
  }
  EXPECT_TRUE(key_memory_.Take(200)) << "the slice has returned its memory";
}

TEST_F(SparseSliceTest, APushIsAppliedOnce) {
  const auto slice = MakeSlice(ConsistencyMode::kAsync);
  const Keys keys = KeysOfShard(5);
  const Rows rows = {keys, std::vector<float>(keys.size() * kDim, 1), keys};
  const ExchangeReply first = ExchangeNow(*slice, RequestOf(0, rows, Step(0), Step(1)));
  const ExchangeReply again = ExchangeNow(*slice, RequestOf(0, rows, Step(0), Step(1)));
  ASSERT_TRUE(again.status.ok()) << again.status;
  EXPECT_EQ(again.version, first.version);
  EXPECT_EQ(slice->duplicate_pushes(), 1);
  EXPECT_EQ(slice->memory().rows, keys.size());
  std::vector<float> values(keys.size() * kDim);
  again.values.CopyTo(absl::MakeSpan(values));
  // Three live workers: each push moves the parameters by a third.
  ExpectNear(values, std::vector<float>(values.size(), -0.05f / 3));
}

TEST_F(SparseSliceTest, ThePushOfALearningRateTakesThePlaceOfTheOptimizers) {
  const auto slice = MakeSlice(ConsistencyMode::kAsync);
  const Keys keys = KeysOfShard(1);
  ExchangeRequest request =
      RequestOf(0, {keys, std::vector<float>(kDim, 1), keys}, Step(0), Step(1));
  RowStepOf(request).push->rates.learning_rate = 0.3;
  const ExchangeReply reply = ExchangeNow(*slice, std::move(request));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.learning_rate_divisor, 3u);
  std::vector<float> values(kDim);
  reply.values.CopyTo(absl::MakeSpan(values));
  ExpectNear(values, std::vector<float>(kDim, -0.1f));
}

TEST_F(SparseSliceTest, WhatDoesNotFitIsRefusedAndChangesNothing) {
  const auto slice = MakeSlice(ConsistencyMode::kAsync);
  const Keys keys = KeysOfShard(4);
  Keys strange = keys;
  while (ShardOfKey(strange.back(), kShardCount) == kShard) ++strange.back();
  const std::vector<float> gradient(4 * kDim, 1);
  std::vector<float> nan = gradient;
  nan[5] = NAN;

  std::map<std::string, ExchangeRequest> requests;
  const auto request = [](const Rows& rows) {
    return RequestOf(0, rows, Step(0), rows.pulled.empty() ? std::nullopt : std::optional(Step(1)));
  };
  requests["belongs to shard"] = request({strange, gradient, {}});
  requests["expected a gradient of 48 bytes"] = request({keys, std::vector<float>(5), {}});
  requests["holds a NaN"] = request({keys, nan, {}});
  requests["expected a key list of hash"] = request({keys, gradient, {}});
  ++RowStepOf(requests["expected a key list of hash"]).pushed_keys.hash;
  requests["bytes or more of their keys"] = request({keys, gradient, keys});
  RowStepOf(requests["bytes or more of their keys"]).pulled_keys.rows = 1u << 31;
  requests["but they take"] = request({keys, gradient, {}});
  RowStepOf(requests["but they take"]).pushed_keys.rows = 3;
  requests["expected the push of step 0"] =
      RequestOf(0, {keys, gradient, {}}, Step(1), std::nullopt);
  requests["expected no momentum, because the table is sparse"] = request({keys, gradient, {}});
  RowStepOf(requests["expected no momentum, because the table is sparse"]).push->rates.momentum = 0;
  requests["has not pushed its update"] = RequestOf(0, {{}, {}, keys}, std::nullopt, Step(1));
  for (auto& [error, bad] : requests) {
    const ExchangeReply reply = ExchangeNow(*slice, std::move(bad));
    EXPECT_FALSE(reply.status.ok()) << error;
    EXPECT_NE(reply.status.message().find(error), absl::string_view::npos) << reply.status;
    EXPECT_NE(reply.status.message().find("slice 2 of table items"), absl::string_view::npos);
  }
  EXPECT_EQ(slice->version(), 0u);
  EXPECT_EQ(PullNow(*slice, 0, keys, Step(0)), std::vector<float>(keys.size() * kDim));
}

TEST_F(SparseSliceTest, ConsecutiveKeysTakeLittleMoreThanNothing) {
  const auto slice = MakeSlice(ConsistencyMode::kAsync, "float32", ShardId(0), /*shard_count=*/1);
  Keys keys(10000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  EXPECT_EQ(PullNow(*slice, 0, keys, Step(0)), std::vector<float>(keys.size() * kDim));
}

TEST_F(SparseSliceTest, TheOptimizersStateIsInTheRows) {
  const auto slice = MakeSlice(ConsistencyMode::kAsync);
  ExchangeRequest request;
  request.purpose = OptimizerStatePull{0};
  EXPECT_TRUE(absl::IsInvalidArgument(ExchangeNow(*slice, request).status));
  request.purpose = OptimizerState();
  EXPECT_TRUE(absl::IsInvalidArgument(ExchangeNow(*slice, request).status));
}

TEST_F(SparseSliceTest, RowsTravelAsInt8) {
  const auto slice = MakeSlice(ConsistencyMode::kAsync, "int8");
  const Keys keys = KeysOfShard(100);
  const auto codec = MakeCodec("int8").value();
  Rows rows = {keys, std::vector<float>(keys.size() * kDim, -12), keys};
  std::vector<float> bytes((codec->EncodedBytes(rows.gradient.size()) + 3) / 4);
  const absl::Span<uint8_t> encoded(reinterpret_cast<uint8_t*>(bytes.data()),
                                    codec->EncodedBytes(rows.gradient.size()));
  ASSERT_TRUE(codec->Encode(rows.gradient, {}, {}, encoded).ok());
  ASSERT_EQ(encoded.size() % 4, 0u);
  rows.gradient.assign(bytes.begin(), bytes.end());
  ExchangeRequest request = RequestOf(0, rows, Step(0), Step(1));
  RowStepOf(request).push->gradient->codec = CodecType::kInt8;
  const ExchangeReply reply = ExchangeNow(*slice, std::move(request));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.codec, CodecType::kInt8);
  std::vector<float> values(keys.size() * kDim);
  codec->Decode(reply.values.InOnePiece().piece(), values.size(), 0, absl::MakeSpan(values));
  for (const float value : values) EXPECT_NEAR(value, 0.2f, 0.002f);
}

TEST_F(SparseSliceTest, ARestoredSliceGoesOnAsTheOriginal) {
  optimizer_ = Adagrad();
  const Keys keys = KeysOfShard(50);
  constexpr uint64_t kSeed = 8;
  Random random(kSeed);
  const auto slice = MakeSlice(ConsistencyMode::kBsp);
  for (int worker = 0; worker < kWorkers; ++worker) {
    Exchange(*slice, RequestOf(worker, RandomRows(keys, random), Step(0), Step(1)));
  }
  // A step that is not complete.
  Exchange(*slice, RequestOf(0, RandomRows(keys, random), Step(1), std::nullopt));
  Exchange(*slice, RequestOf(1, {}, Step(1), std::nullopt));

  const auto restored = MakeSlice(ConsistencyMode::kBsp);
  ASSERT_TRUE(restored->Restore(slice->Snapshot()).ok());
  const Rows last = RandomRows(keys, random);
  std::vector<std::vector<float>> results;
  for (SparseSlice* const each : {slice.get(), restored.get()}) {
    EXPECT_TRUE(ExchangeNow(*each, RequestOf(2, last, Step(1), std::nullopt)).status.ok());
    EXPECT_EQ(each->version(), 2u);
    results.push_back(PullNow(*each, 2, keys, Step(2)));
  }
  EXPECT_EQ(results[0], results[1]) << "seed " << kSeed;
  EXPECT_NE(results[0], std::vector<float>(keys.size() * kDim));
}

TEST_F(SparseSliceTest, ASnapshotThatContradictsItselfIsRefused) {
  const auto slice = MakeSlice(ConsistencyMode::kBsp);
  const Rows rows = {KeysOfShard(2), std::vector<float>(2 * kDim, 1), {}};
  for (int worker = 0; worker < kWorkers; ++worker) {
    Exchange(*slice, RequestOf(worker, rows, Step(0), std::nullopt));
  }
  Exchange(*slice, RequestOf(0, rows, Step(1), std::nullopt));
  const SliceSnapshot good = slice->Snapshot();
  ASSERT_EQ(good.rows->keys.size(), 2u);
  ASSERT_EQ(good.kept.size(), 1u);
  const auto error_of = [&](const SliceSnapshot& snapshot) {
    const absl::Status status = MakeSlice(ConsistencyMode::kBsp)->Restore(snapshot);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  uint64_t foreign = 0;
  while (ShardOfKey(foreign, kShardCount) == kShard) ++foreign;
  SliceSnapshot bad = good;
  SparseRowsSnapshot bad_rows = *good.rows;
  bad_rows.keys[0] = foreign;
  bad.rows = std::make_shared<const SparseRowsSnapshot>(bad_rows);
  EXPECT_THAT(error_of(bad), testing::HasSubstr("not to shard 2"));
  bad = good;
  bad.kept[0].keys = std::make_shared<const Keys>(Keys{rows.pushed[1], rows.pushed[0]});
  EXPECT_THAT(error_of(bad), testing::HasSubstr("expected ascending keys"));
  bad = good;
  bad.kept[0].gradient = bad.kept[0].gradient.Subrange(0, 4);
  EXPECT_THAT(error_of(bad), testing::HasSubstr("bytes in a kept push, got 4"));
}

}  // namespace
}  // namespace capstan
