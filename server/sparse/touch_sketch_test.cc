#include "server/sparse/touch_sketch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/base/random.h"

namespace capstan {
namespace {

TEST(TouchSketchTest, CountsFewKeysExactly) {
  TouchSketch sketch(/*width=*/1000);
  for (int count = 1; count <= 5; ++count) {
    for (const uint64_t key : {uint64_t{0}, uint64_t{7}, UINT64_MAX}) {
      EXPECT_EQ(sketch.Touch(key), count) << key;
    }
  }
}

TEST(TouchSketchTest, CountsStopAtTheLargest) {
  TouchSketch sketch(/*width=*/10);
  for (int count = 1; count < TouchSketch::kMaxCount; ++count) sketch.Touch(3);
  EXPECT_EQ(sketch.Touch(3), 255);
  EXPECT_EQ(sketch.Touch(3), 255);
}

TEST(TouchSketchTest, CountsAreNeverTooSmallAndSeldomMuchTooLarge) {
  constexpr size_t kWidth = 2000;
  constexpr int kTouches = 40'000;
  TouchSketch sketch(kWidth);
  Random random(/*seed=*/11);
  std::unordered_map<uint64_t, int> exact;
  int too_large = 0;
  for (int i = 0; i < kTouches; ++i) {
    const uint64_t key = random.UniformInt(10'000);
    const int count = sketch.Touch(key);
    const int expected = ++exact[key];
    ASSERT_GE(count, expected) << key;
    if (count > expected + 2 * (i + 1) / static_cast<int>(kWidth)) ++too_large;
  }
  EXPECT_LE(too_large, kTouches / 16);
}

TEST(TouchSketchTest, ConservativeUpdateHidesRareKeysFromFrequentOnes) {
  TouchSketch sketch(/*width=*/64);
  for (int i = 0; i < 100; ++i) sketch.Touch(1);
  int admitted = 0;
  for (uint64_t key = 2; key < 34; ++key) admitted += sketch.Touch(key) >= 2 ? 1 : 0;
  EXPECT_LE(admitted, 2);
}

TEST(TouchSketchTest, GoesOnWithTheCountersOfAnother) {
  TouchSketch a(/*width=*/50), b(/*width=*/50);
  for (uint64_t key = 0; key < 200; ++key) a.Touch(key % 80);
  b.set_counters(a.counters());
  for (uint64_t key = 0; key < 200; ++key) EXPECT_EQ(a.Touch(key), b.Touch(key)) << key;
  EXPECT_EQ(a.counters(), b.counters());
}

}  // namespace
}  // namespace capstan
