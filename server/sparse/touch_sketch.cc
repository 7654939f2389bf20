#include "server/sparse/touch_sketch.h"

#include <glog/logging.h>

#include <algorithm>
#include <array>

namespace capstan {
namespace {

// SplitMix64 at position `row` + 1 of the sequence that starts with the key: Steele, Lea and Flood,
// "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
uint64_t HashOf(uint64_t key, uint64_t row) {
  uint64_t hash = key + (row + 1) * 0x9E3779B97F4A7C15;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EB;
  return hash ^ (hash >> 31);
}

}  // namespace

TouchSketch::TouchSketch(size_t width) : width_(width), counters_(width * kRows) {
  CHECK_GT(width, 0u);
}

int TouchSketch::Touch(uint64_t key) {
  std::array<uint8_t*, kRows> counters;
  for (size_t row = 0; row < kRows; ++row) {
    const auto column = (static_cast<unsigned __int128>(HashOf(key, row)) * width_) >> 64;
    counters[row] = &counters_[row * width_ + static_cast<size_t>(column)];
  }
  int count = kMaxCount - 1;
  for (const uint8_t* counter : counters) count = std::min(count, int{*counter});
  ++count;
  // Larger counters already cover this touch.
  for (uint8_t* counter : counters) *counter = std::max(*counter, static_cast<uint8_t>(count));
  return count;
}

void TouchSketch::set_counters(absl::Span<const uint8_t> counters) {
  CHECK_EQ(counters.size(), counters_.size());
  counters_.assign(counters.begin(), counters.end());
}

}  // namespace capstan
