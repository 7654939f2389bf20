#include "server/sparse/row_ages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/base/random.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

// Ages beside the true last touches.
struct Rows {
  void Touch(uint64_t key, uint32_t step) {
    const auto [row, is_new] = last_touch.emplace(key, step);
    row->second = step;
    if (is_new) ages.Add(key, step);
  }

  // The oldest rows, all or `count`, with a last touch before `limit`.
  std::vector<uint64_t> Take(uint64_t limit, size_t count = SIZE_MAX) {
    std::vector<uint64_t> taken;
    uint64_t key;
    const auto last_touch_of = [this](uint64_t row) { return last_touch.at(row); };
    while (taken.size() < count && ages.TakeOldest(limit, last_touch_of, &key)) {
      taken.push_back(key);
      last_touch.erase(key);
    }
    return taken;
  }

  RowAges ages;
  std::map<uint64_t, uint32_t> last_touch;
};

TEST(RowAgesTest, LongestUntouchedRowsGoFirstTiesByKey) {
  Rows rows;
  for (const uint64_t key : {5, 3, 9}) rows.Touch(key, /*step=*/1);
  for (const uint64_t key : {4, 2}) rows.Touch(key, /*step=*/0);
  rows.Touch(9, /*step=*/7);
  rows.Touch(2, /*step=*/1);
  EXPECT_THAT(rows.Take(/*limit=*/100), ElementsAre(4, 2, 3, 5, 9));
}

TEST(RowAgesTest, RowsTouchedAtTheLimitStay) {
  Rows rows;
  rows.Touch(1, /*step=*/4);
  rows.Touch(2, /*step=*/5);
  EXPECT_THAT(rows.Take(/*limit=*/5), ElementsAre(1));
  EXPECT_THAT(rows.Take(/*limit=*/5), ElementsAre());
  EXPECT_THAT(rows.Take(/*limit=*/6), ElementsAre(2));
}

TEST(RowAgesTest, AgreesWithAScanOfAllRows) {
  constexpr uint64_t kSeed = 21;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Random random(kSeed);
  Rows rows;
  for (int i = 0; i < 3000; ++i) {
    // Steps of slow workers are some behind.
    const auto step = static_cast<uint32_t>(i / 10 + random.UniformInt(5));
    const uint64_t key = random.UniformInt(200);
    if (const auto row = rows.last_touch.find(key);
        row == rows.last_touch.end() || row->second <= step) {
      rows.Touch(key, step);
    }
    if (!random.Bernoulli(0.3)) continue;
    std::pair<uint32_t, uint64_t> oldest = {UINT32_MAX, 0};
    for (const auto& [row, touch] : rows.last_touch) oldest = std::min(oldest, {touch, row});
    ASSERT_THAT(rows.Take(/*limit=*/UINT64_MAX, /*count=*/1), ElementsAre(oldest.second));
  }
  EXPECT_EQ(rows.ages.bytes(), 8 * rows.last_touch.size());
}

}  // namespace
}  // namespace capstan
