#include "server/sparse/rows_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "server/sparse/row_optimizer.h"
#include "server/sparse/sparse_rows.h"

namespace capstan {
namespace {

using Options = SparseRows::Options;
using Use = absl::FunctionRef<void()>;

template <typename Number>
std::string BytesOf(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

// Bit for bit.
bool AreSame(const SparseRowsSnapshot& a, const SparseRowsSnapshot& b) {
  return a.dim == b.dim && a.state_floats == b.state_floats && a.last_step == b.last_step &&
         a.keys == b.keys && BytesOf(a.values) == BytesOf(b.values) &&
         BytesOf(a.state) == BytesOf(b.state) && a.last_touch == b.last_touch &&
         a.sketch == b.sketch;
}

// Rows, and random calls of them. Keys are of a range that grows.
struct Rows {
  Rows(const Options& options, RowOptimizer::Type type, size_t dim, uint64_t seed = 1)
      : dim(dim), random(seed) {
    RowOptimizer::Options of_optimizer;
    of_optimizer.type = type;
    optimizer = RowOptimizer::Create(of_optimizer, dim).value();
    rows = SparseRows::Create(options, optimizer.get()).value();
  }

  std::vector<uint64_t> Keys(size_t count) {
    std::vector<uint64_t> keys(count);
    for (uint64_t& key : keys) key = ~uint64_t{0} * random.UniformInt(2) ^ random.UniformInt(range);
    return keys;
  }
  void Push(const std::vector<uint64_t>& keys) {
    std::vector<float> gradients(keys.size() * dim);
    for (float& gradient : gradients) gradient = random.UniformFloat() - 0.5f;
    rows->Push(keys, gradients, Step(step));
  }
  void Pull(const std::vector<uint64_t>& keys) {
    std::vector<float> values(keys.size() * dim);
    rows->Pull(keys, Step(step), absl::MakeSpan(values));
  }
  void Fill(size_t calls) {
    for (size_t i = 0; i < calls; ++i) Push(Keys(2000));
  }
  // Now and then a step of its own, so that rows become idle.
  void CallAtRandom() {
    step += random.UniformInt(3) == 0 ? 1 : 0;
    range += random.UniformInt(200);
    const size_t count = random.UniformInt(3) == 0 ? 1 + random.UniformInt(3) : 300;
    random.UniformInt(3) == 0 ? Pull(Keys(count)) : Push(Keys(count));
  }

  const size_t dim;
  Random random;
  std::unique_ptr<RowOptimizer> optimizer;
  std::unique_ptr<SparseRows> rows;
  uint64_t range = 40'000;
  int64_t step = 0;
};

Options AllLimits() {
  Options options;
  options.initial_stddev = 0.1;
  options.admitting_push = 2;
  options.sketch_width = 1 << 12;
  options.max_idle_steps = 30;
  options.max_rows = 50'000;
  return options;
}

bool Alone(Use use) {
  use();
  return true;
}

// The cut as it is copied while calls go on. `parts` counts the parts.
SparseRowsSnapshot CopyMeanwhile(Rows& rows, RowsCut& cut, int* parts) {
  const absl::Status status = cut.Copy([&](Use use) {
    for (uint64_t calls = rows.random.UniformInt(12); calls > 0; --calls) rows.CallAtRandom();
    use();
    ++*parts;
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  rows.CallAtRandom();
  return cut.Take();
}

// Cuts rows a few times. Each time, calls go on before the first part, and between the parts.
void ExpectCutsOfTheirMoments(Rows& rows, uint64_t seed) {
  int parts = 0;
  size_t changed = 0;
  for (int i = 0; i < 4; ++i) {
    const SparseRowsSnapshot expected = rows.rows->Snapshot();
    const std::shared_ptr<RowsCut> cut = rows.rows->Cut();
    for (int calls = 0; calls < i * 20; ++calls) rows.CallAtRandom();
    ASSERT_TRUE(AreSame(CopyMeanwhile(rows, *cut, &parts), expected))
        << "cut " << i << ", seed " << seed;
    changed += AreSame(rows.rows->Snapshot(), expected) ? 0 : 1;
    for (int calls = 0; calls < 20; ++calls) rows.CallAtRandom();
  }
  EXPECT_GT(parts, 8);
  EXPECT_EQ(changed, 4u);
}

TEST(RowsCutTest, IsOfItsMomentWhilePushesPullsInsertionsAndEvictionsGoOn) {
  using Type = RowOptimizer::Type;
  const uint64_t seed = std::random_device()();
  for (const Type type : {Type::kSgd, Type::kAdagrad, Type::kRowAdagrad, Type::kAdam}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", optimizer " << static_cast<int>(type));
    Rows rows(AllLimits(), type, /*dim=*/3, seed);
    rows.Fill(60);
    ExpectCutsOfTheirMoments(rows, seed);
  }
}

TEST(RowsCutTest, IsOfItsMomentWhileTheTableGrows) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Rows rows({}, RowOptimizer::Type::kAdam, /*dim=*/2, seed);
  rows.range = uint64_t{1} << 60;
  rows.Fill(15);
  for (int i = 0; i < 6; ++i) {
    const SparseRowsSnapshot expected = rows.rows->Snapshot();
    const std::shared_ptr<RowsCut> cut = rows.rows->Cut();
    int parts = 0;
    const absl::Status status = cut->Copy([&](Use use) {
      rows.Fill(1 + rows.random.UniformInt(2));
      use();
      ++parts;
      return true;
    });
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(AreSame(cut->Take(), expected)) << "cut " << i;
    EXPECT_GT(parts, 2);
    EXPECT_GT(rows.rows->size(), expected.keys.size() + 4000);
  }
}

TEST(RowsCutTest, WithoutAgesPullsCopyNothingAndWithAgesTheyDo) {
  for (const bool has_ages : {false, true}) {
    Options options;
    if (has_ages) options.max_idle_steps = 1000;
    Rows rows(options, RowOptimizer::Type::kSgd, /*dim=*/4);
    rows.Fill(10);
    const std::shared_ptr<RowsCut> cut = rows.rows->Cut();
    const size_t before = rows.rows->cut_bytes();
    rows.step = 5;
    rows.Pull(rows.Keys(1000));
    EXPECT_EQ(rows.rows->cut_bytes() > before, has_ages);
  }
}

TEST(RowsCutTest, ASmallTableAndKeyZeroAndNoRowsAtAllAreCopied) {
  Rows rows({}, RowOptimizer::Type::kAdagrad, /*dim=*/1);
  for (const std::vector<uint64_t>& keys :
       {std::vector<uint64_t>{}, {0}, {UINT64_MAX, 0, 7}, {0, 7, 8, 9}}) {
    rows.Push(keys);
    const SparseRowsSnapshot expected = rows.rows->Snapshot();
    const std::shared_ptr<RowsCut> cut = rows.rows->Cut();
    rows.Push({0, 5, 7});
    ASSERT_TRUE(cut->Copy(Alone).ok());
    EXPECT_TRUE(AreSame(cut->Take(), expected)) << keys.size() << " keys";
    rows.rows = SparseRows::Create({}, rows.optimizer.get()).value();
  }
}

TEST(RowsCutTest, RowsThatChangeTakeMemoryUntilTheCutIsCopiedOrNobodyHasIt) {
  Rows rows({}, RowOptimizer::Type::kSgd, /*dim=*/16);
  rows.Fill(20);
  const size_t table = rows.rows->bytes();
  EXPECT_EQ(rows.rows->cut_bytes(), 0u);
  std::shared_ptr<RowsCut> cut = rows.rows->Cut();
  EXPECT_LT(rows.rows->cut_bytes(), table / 50);
  rows.Push(rows.Keys(2000));
  EXPECT_GT(rows.rows->cut_bytes(), 1500 * 16 * sizeof(float));
  EXPECT_LT(rows.rows->cut_bytes(), table / 5);
  rows.Fill(100);
  EXPECT_LT(rows.rows->cut_bytes(), table) << "each row once";
  cut.reset();
  EXPECT_EQ(rows.rows->cut_bytes(), 0u);
  cut = rows.rows->Cut();
  rows.Fill(5);
  ASSERT_TRUE(cut->Copy(Alone).ok());
  EXPECT_EQ(rows.rows->cut_bytes(), 0u);
  rows.Fill(5);
  EXPECT_EQ(rows.rows->cut_bytes(), 0u);
}

TEST(RowsCutTest, IsNotCopiedOnceItIsGivenUp) {
  Rows rows({}, RowOptimizer::Type::kSgd, /*dim=*/2);
  rows.Fill(3);
  const std::shared_ptr<RowsCut> older = rows.rows->Cut();
  const std::shared_ptr<RowsCut> newer = rows.rows->Cut();
  EXPECT_TRUE(absl::IsAborted(older->Copy(Alone)));
  EXPECT_TRUE(absl::IsAborted(newer->Copy([](Use) { return false; })));
  const std::shared_ptr<RowsCut> last = rows.rows->Cut();
  rows.rows = nullptr;
  EXPECT_TRUE(absl::IsAborted(last->Copy(Alone)));
}

TEST(RowsCutTest, IsCopiedOnAnotherThreadThanTheCalls) {
  constexpr uint64_t kSeed = 5;
  Rows rows(AllLimits(), RowOptimizer::Type::kAdagrad, /*dim=*/8, kSeed);
  rows.Fill(60);
  Mutex mu;
  for (int i = 0; i < 5; ++i) {
    const SparseRowsSnapshot expected = rows.rows->Snapshot();
    const std::shared_ptr<RowsCut> cut = rows.rows->Cut();
    SparseRowsSnapshot copied;
    std::atomic<bool> is_copied = false;
    std::thread copying([&] {
      const absl::Status status = cut->Copy([&mu](Use use) {
        MutexLock lock(&mu);
        use();
        return true;
      });
      EXPECT_TRUE(status.ok()) << status;
      copied = cut->Take();
      is_copied = true;
    });
    while (!is_copied) {
      MutexLock lock(&mu);
      rows.CallAtRandom();
      rows.rows->cut_bytes();
    }
    copying.join();
    ASSERT_TRUE(AreSame(copied, expected)) << "cut " << i;
  }
}

}  // namespace
}  // namespace capstan
