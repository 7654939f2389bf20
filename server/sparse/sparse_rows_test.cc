#include "server/sparse/sparse_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/random.h"
#include "server/sparse/initial_row.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Options = SparseRows::Options;

constexpr size_t kDim = 2;
constexpr float kRate = 0.5f;

std::unique_ptr<RowOptimizer> MakeOptimizer(RowOptimizer::Type type) {
  RowOptimizer::Options options;
  options.type = type;
  options.learning_rate = kRate;
  auto optimizer = RowOptimizer::Create(options, kDim);
  EXPECT_TRUE(optimizer.ok()) << optimizer.status();
  return *std::move(optimizer);
}

// Rows with their optimizer.
struct Rows {
  explicit Rows(const Options& options = {}, RowOptimizer::Type type = RowOptimizer::Type::kSgd)
      : optimizer(MakeOptimizer(type)) {
    auto created = SparseRows::Create(options, optimizer.get());
    EXPECT_TRUE(created.ok()) << created.status();
    rows = *std::move(created);
  }

  // Pushes the gradient (1, 1) for each key.
  void Push(const std::vector<uint64_t>& keys, int64_t step = 0) {
    rows->Push(keys, std::vector<float>(keys.size() * kDim, 1.0f), Step(step));
  }
  std::vector<float> Pull(const std::vector<uint64_t>& keys, int64_t step = 0) {
    std::vector<float> values(keys.size() * kDim, -77);
    rows->Pull(keys, Step(step), absl::MakeSpan(values));
    return values;
  }
  std::vector<uint64_t> Keys() const { return rows->Snapshot().keys; }

  std::unique_ptr<RowOptimizer> optimizer;
  std::unique_ptr<SparseRows> rows;
};

TEST(SparseRowsTest, AKeyWithoutRowHasItsInitialValuesAndGetsNoRowByAPull) {
  Options options;
  options.seed = 4;
  options.table = TableId(9);
  options.initial_stddev = 0.1;
  Rows rows(options);
  std::vector<float> initial(kDim);
  InitializeRow(/*seed=*/4, TableId(9), /*stddev=*/0.1, /*key=*/6, absl::MakeSpan(initial));
  EXPECT_EQ(rows.Pull({6}), initial);
  EXPECT_EQ(rows.rows->size(), 0u);
  rows.Push({6});
  EXPECT_THAT(rows.Pull({6}), ElementsAre(initial[0] - kRate, initial[1] - kRate));
}

TEST(SparseRowsTest, HoldsAnyKey) {
  Rows rows;
  rows.Push({UINT64_MAX, 0, 1});
  rows.Push({0});
  EXPECT_THAT(rows.Keys(), ElementsAre(0, 1, UINT64_MAX));
  EXPECT_THAT(rows.Pull({0, UINT64_MAX, 2}), ElementsAre(-1, -1, -.5, -.5, 0, 0));
}

TEST(SparseRowsTest, TheRateFactorMultipliesTheLearningRate) {
  Rows rows;
  rows.rows->Push({3}, {1, 2}, Step(0), /*rate_factor=*/0.25);
  EXPECT_THAT(rows.Pull({3}), ElementsAre(-0.125, -0.25));
}

TEST(SparseRowsTest, GradientsBeforeTheAdmittingPushAreDropped) {
  Options options;
  options.admitting_push = 3;
  Rows rows(options);
  rows.Push({8});
  rows.Push({8, 9});
  rows.Pull({8});
  EXPECT_THAT(rows.Keys(), IsEmpty());
  rows.Push({8, 9});
  EXPECT_THAT(rows.Keys(), ElementsAre(8));
  EXPECT_THAT(rows.Pull({8, 9}), ElementsAre(-.5, -.5, 0, 0));
}

TEST(SparseRowsTest, AKeyTwiceInABatchIsTwoPushes) {
  Options options;
  options.admitting_push = 2;
  Rows rows(options);
  rows.rows->Push({8, 8, 9, 8}, {1, 1, 2, 2, 3, 3, 4, 4}, Step(0));
  EXPECT_THAT(rows.Keys(), ElementsAre(8));
  EXPECT_THAT(rows.Pull({8}), ElementsAre(-3, -3));  // of 2 and 4; 1 was dropped
}

TEST(SparseRowsTest, IdleRowsGo) {
  Options options;
  options.max_idle_steps = 10;
  Rows rows(options);
  rows.Push({1, 2, 3}, /*step=*/0);
  rows.Pull({2}, /*step=*/5);
  rows.Push({4}, /*step=*/10);
  EXPECT_THAT(rows.Keys(), ElementsAre(1, 2, 3, 4));
  rows.Push({3}, /*step=*/11);
  EXPECT_THAT(rows.Keys(), ElementsAre(2, 3, 4));
  rows.Push({1}, /*step=*/16);
  EXPECT_THAT(rows.Keys(), ElementsAre(1, 3, 4));
  EXPECT_THAT(rows.Pull({1}), ElementsAre(-.5, -.5));  // begins anew
}

TEST(SparseRowsTest, ALateStepDoesNotMakeARowOlder) {
  Options options;
  options.max_idle_steps = 10;
  Rows rows(options);
  rows.Push({1}, /*step=*/8);
  rows.Push({1}, /*step=*/2);
  rows.Push({2}, /*step=*/18);
  EXPECT_THAT(rows.Keys(), ElementsAre(1, 2));
}

TEST(SparseRowsTest, ManyIdleRowsGoInSeveralCalls) {
  Options options;
  options.max_idle_steps = 1;
  Rows rows(options);
  std::vector<uint64_t> keys(200);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  rows.Push(keys, /*step=*/0);
  rows.Push({1000}, /*step=*/9);
  EXPECT_EQ(rows.rows->size(), 201u - 68);
  rows.Push({1000}, /*step=*/9);
  rows.Push({1000}, /*step=*/9);
  EXPECT_THAT(rows.Keys(), ElementsAre(1000));
}

TEST(SparseRowsTest, OfTooManyRowsTheLongestIdleGoTiesByKey) {
  Options options;
  options.max_rows = 3;
  Rows rows(options);
  rows.Push({7, 5, 6}, /*step=*/1);
  rows.Pull({5}, /*step=*/2);
  rows.Push({9}, /*step=*/2);
  EXPECT_THAT(rows.Keys(), ElementsAre(5, 7, 9));
  rows.Push({1, 2, 3, 4}, /*step=*/3);
  EXPECT_THAT(rows.Keys(), ElementsAre(2, 3, 4));
}

// The same rules over maps, with exact counts.
class Reference {
 public:
  explicit Reference(const Options& options) : options_(options) {}

  void Push(const std::vector<uint64_t>& keys, const std::vector<float>& gradients, int64_t step) {
    last_step_ = std::max(last_step_, step);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (rows_.count(keys[i]) == 0 && ++pushes_[keys[i]] < options_.admitting_push) continue;
      const auto [row, is_new] = rows_.emplace(keys[i], Row{{0, 0}, step});
      row->second.last_touch = std::max(row->second.last_touch, step);
      for (size_t j = 0; j < kDim; ++j) row->second.values[j] -= kRate * gradients[i * kDim + j];
    }
    while (rows_.size() > *options_.max_rows) rows_.erase(Oldest());
    while (!rows_.empty() && last_step_ - Oldest()->second.last_touch > *options_.max_idle_steps) {
      rows_.erase(Oldest());
    }
  }

  std::vector<float> Pull(const std::vector<uint64_t>& keys, int64_t step) {
    last_step_ = std::max(last_step_, step);
    for (const uint64_t key : keys) {
      const auto row = rows_.find(key);
      if (row != rows_.end()) row->second.last_touch = std::max(row->second.last_touch, step);
    }
    return Values(keys);
  }

  std::vector<float> Values(const std::vector<uint64_t>& keys) const {
    std::vector<float> values;
    for (const uint64_t key : keys) {
      const auto row = rows_.find(key);
      const std::vector<float> zeros(kDim);
      const std::vector<float>& found = row == rows_.end() ? zeros : row->second.values;
      values.insert(values.end(), found.begin(), found.end());
    }
    return values;
  }

  std::vector<uint64_t> Keys() const {
    std::vector<uint64_t> keys;
    for (const auto& [key, row] : rows_) keys.push_back(key);
    return keys;
  }

 private:
  struct Row {
    std::vector<float> values;
    int64_t last_touch;
  };

  std::map<uint64_t, Row>::iterator Oldest() {
    return std::min_element(rows_.begin(), rows_.end(), [](const auto& a, const auto& b) {
      return std::make_pair(a.second.last_touch, a.first) <
             std::make_pair(b.second.last_touch, b.first);
    });
  }

  const Options options_;
  std::map<uint64_t, Row> rows_;
  std::map<uint64_t, int> pushes_;
  int64_t last_step_ = 0;
};

struct Calls {
  explicit Calls(uint64_t seed) : random(seed) {}

  std::vector<uint64_t> Keys() {
    std::vector<uint64_t> keys(1 + random.UniformInt(100));
    for (uint64_t& key : keys) key = random.UniformInt(400) << (random.UniformInt(2) * 50);
    return keys;
  }
  std::vector<float> Gradients(size_t count) {
    std::vector<float> gradients(count * kDim);
    for (float& element : gradients) element = random.Normal();
    return gradients;
  }
  // Steps of several workers.
  int64_t NextStep() { return ++calls / 4 + static_cast<int64_t>(random.UniformInt(3)); }

  Random random;
  int64_t calls = 0;
};

Options AllLimits() {
  Options options;
  options.admitting_push = 2;
  options.sketch_width = 1 << 16;
  options.max_idle_steps = 4;
  options.max_rows = 120;
  return options;
}

TEST(SparseRowsTest, DoesWhatTheRulesSay) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rows rows(AllLimits());
    Reference reference(AllLimits());
    Calls calls(seed);
    for (int i = 0; i < 400; ++i) {
      const std::vector<uint64_t> pulled = calls.Keys();
      int64_t step = calls.NextStep();
      ASSERT_EQ(rows.Pull(pulled, step), reference.Pull(pulled, step)) << "call " << i;
      const std::vector<uint64_t> pushed = calls.Keys();
      const std::vector<float> gradients = calls.Gradients(pushed.size());
      step = calls.NextStep();
      rows.rows->Push(pushed, gradients, Step(step));
      reference.Push(pushed, gradients, step);
      ASSERT_EQ(rows.Keys(), reference.Keys()) << "call " << i;
    }
  }
}

void ExpectSame(const SparseRowsSnapshot& a, const SparseRowsSnapshot& b) {
  EXPECT_EQ(a.last_step, b.last_step);
  EXPECT_EQ(a.keys, b.keys);
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.last_touch, b.last_touch);
  EXPECT_EQ(a.sketch, b.sketch);
}

std::vector<float> PullBefore(const Rows& rows, const std::vector<uint64_t>& keys) {
  std::vector<float> values(keys.size() * kDim, -77);
  rows.rows->PullBefore(keys, absl::MakeSpan(values));
  return values;
}

TEST(SparseRowsTest, RowsBeforeTheLastPushAreKeptAlsoThoseThatItMadeOrEvicted) {
  constexpr uint64_t kSeed = 4;
  Options options = AllLimits();
  options.keeps_before = true;
  Rows rows(options);
  Reference reference(AllLimits());
  Calls calls(kSeed);
  std::vector<uint64_t> all;
  for (uint64_t key = 0; key < 400; ++key) all.push_back(key);
  for (uint64_t key = 0; key < 400; ++key) all.push_back(key << 50);
  size_t evicted = 0;
  for (int i = 0; i < 400; ++i) {
    const std::vector<uint64_t> pulled = calls.Keys();
    int64_t step = calls.NextStep();
    ASSERT_EQ(rows.Pull(pulled, step), reference.Pull(pulled, step)) << "call " << i;
    std::vector<uint64_t> pushed = calls.Keys();
    std::sort(pushed.begin(), pushed.end());
    pushed.erase(std::unique(pushed.begin(), pushed.end()), pushed.end());
    const std::vector<float> gradients = calls.Gradients(pushed.size());
    const std::vector<float> before = reference.Values(all);
    const std::vector<uint64_t> keys_before = reference.Keys();
    step = calls.NextStep();
    rows.rows->Push(pushed, gradients, Step(step));
    reference.Push(pushed, gradients, step);
    const std::vector<uint64_t> keys = reference.Keys();
    for (const uint64_t key : keys_before) {
      evicted += std::binary_search(keys.begin(), keys.end(), key) ? 0 : 1;
    }
    ASSERT_EQ(PullBefore(rows, all), before) << "call " << i << ", seed " << kSeed;
    // It is no touch: the next evictions are those of the rules.
    ASSERT_EQ(rows.Keys(), keys) << "call " << i;
    if (i % 10 == 0) {
      rows.rows->ForgetBefore();
      ASSERT_EQ(PullBefore(rows, all), reference.Values(all)) << "call " << i;
    }
  }
  EXPECT_GT(evicted, 1000u);
}

TEST(SparseRowsTest, ARowHadItsInitialValuesBeforeThePushThatMadeIt) {
  Options options;
  options.initial_stddev = 0.1;
  options.keeps_before = true;
  Rows rows(options);
  const std::vector<float> initial = rows.Pull({6, 7});
  const size_t bytes = rows.rows->bytes();
  rows.Push({6});
  EXPECT_EQ(PullBefore(rows, {6, 7}), initial);
  EXPECT_NE(rows.Pull({6, 7}), initial);
  EXPECT_GE(rows.rows->bytes(), bytes + kDim * sizeof(float));
  rows.rows->ForgetBefore();
  EXPECT_EQ(rows.rows->bytes(), bytes);
}

TEST(SparseRowsTest, AReadIsNoTouch) {
  Options options;
  options.max_idle_steps = 2;
  Rows rows(options);
  rows.Push({5});
  const std::vector<float> pushed = rows.rows->Snapshot().values;
  std::vector<float> values(pushed.size());
  EXPECT_FALSE(rows.rows->Read(6, absl::MakeSpan(values)));
  for (int64_t step = 1; step < 3; ++step) {
    EXPECT_TRUE(rows.rows->Read(5, absl::MakeSpan(values)));
    EXPECT_EQ(values, pushed);
    rows.rows->Push({}, {}, Step(step));
  }
  rows.rows->Push({}, {}, Step(3));
  EXPECT_FALSE(rows.rows->Read(5, absl::MakeSpan(values))) << "idle for more than 2 steps";
}

TEST(SparseRowsTest, ARestoredCopyIsTheSameAndGoesOnTheSame) {
  for (const auto type : {RowOptimizer::Type::kAdam, RowOptimizer::Type::kFtrl}) {
    Rows rows(AllLimits(), type), copy(AllLimits(), type);
    Calls calls(/*seed=*/8);
    for (int i = 0; i < 300; ++i) {
      const std::vector<uint64_t> keys = calls.Keys();
      const std::vector<float> gradients = calls.Gradients(keys.size());
      const Step step(calls.NextStep());
      rows.rows->Push(keys, gradients, step);
      if (i == 150) {
        const absl::Status restored = copy.rows->Restore(rows.rows->Snapshot());
        ASSERT_TRUE(restored.ok()) << restored;
      }
      if (i > 150) copy.rows->Push(keys, gradients, step);
      if (i >= 150) ExpectSame(copy.rows->Snapshot(), rows.rows->Snapshot());
    }
  }
}

TEST(SparseRowsTest, ACopyIsRestoredInParts) {
  Rows rows(AllLimits()), copy(AllLimits());
  Calls calls(/*seed=*/9);
  for (int i = 0; i < 100; ++i) {
    const std::vector<uint64_t> keys = calls.Keys();
    rows.rows->Push(keys, calls.Gradients(keys.size()), Step(calls.NextStep()));
  }
  const SparseRowsSnapshot whole = rows.rows->Snapshot();
  ASSERT_GT(whole.keys.size(), 3u);
  SparseRowsSnapshot head = rows.rows->Head();
  const std::vector<uint8_t> sketch = std::exchange(head.sketch, {});
  EXPECT_TRUE(absl::IsResourceExhausted(copy.rows->Reserve(uint64_t{1} << 40)));
  ASSERT_TRUE(copy.rows->Reserve(whole.keys.size()).ok());
  const auto part_of = [&](size_t i) {
    SparseRowsSnapshot part = head;
    part.keys = {whole.keys[i]};
    const auto values = whole.values.begin() + static_cast<ptrdiff_t>(i * whole.dim);
    part.values.assign(values, values + static_cast<ptrdiff_t>(whole.dim));
    const auto state = whole.state.begin() + static_cast<ptrdiff_t>(i * whole.state_floats);
    part.state.assign(state, state + static_cast<ptrdiff_t>(whole.state_floats));
    part.last_touch = {whole.last_touch[i]};
    return part;
  };
  for (size_t i = whole.keys.size(); i-- > 1;) {
    const absl::Status added = copy.rows->RestorePart(part_of(i), /*is_last=*/false);
    ASSERT_TRUE(added.ok()) << added;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(copy.rows->RestorePart(part_of(2), /*is_last=*/false)))
      << "it is there already";
  SparseRowsSnapshot last = part_of(0);
  EXPECT_TRUE(absl::IsInvalidArgument(copy.rows->RestorePart(last, /*is_last=*/true)))
      << "it has no sketch";
  last.sketch = sketch;
  ASSERT_TRUE(copy.rows->RestorePart(last, /*is_last=*/true).ok());
  ExpectSame(copy.rows->Snapshot(), whole);
}

TEST(SparseRowsTest, SnapshotsThatDoNotFitAreRefused) {
  const Options options = AllLimits();
  Rows source(options);
  source.Push({1, 2});
  source.Push({1, 2});
  const SparseRowsSnapshot good = source.rows->Snapshot();
  ASSERT_EQ(good.keys.size(), 2u);
  std::vector<SparseRowsSnapshot> bad(9, good);
  bad[0].values.pop_back();
  bad[1].last_touch.pop_back();
  bad[2].sketch.pop_back();
  bad[3].keys = {2, 1};
  bad[4].keys = {1, 1};
  bad[5].last_step = Step(-1);
  ++bad[6].dim;
  ++bad[7].state_floats;
  bad[8].state.push_back(0);
  Rows copy(options);
  for (const SparseRowsSnapshot& snapshot : bad) {
    EXPECT_EQ(copy.rows->Restore(snapshot).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(copy.rows->size(), 0u);
  }
  EXPECT_TRUE(copy.rows->Restore(good).ok());
}

TEST(SparseRowsTest, OptionsOutOfRangeAreRefused) {
  std::vector<Options> bad(5);
  bad[0].initial_stddev = -1;
  bad[1].admitting_push = 0;
  bad[2].admitting_push = 256;
  bad[3].max_idle_steps = 0;
  bad[4].max_rows = 0;
  const auto sgd = MakeOptimizer(RowOptimizer::Type::kSgd);
  for (const Options& options : bad) {
    EXPECT_EQ(SparseRows::Create(options, sgd.get()).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  const auto ftrl = MakeOptimizer(RowOptimizer::Type::kFtrl);
  Options options;
  options.initial_stddev = 0.1;
  EXPECT_THAT(std::string(SparseRows::Create(options, ftrl.get()).status().message()),
              testing::HasSubstr("FTRL"));
}

}  // namespace
}  // namespace capstan
