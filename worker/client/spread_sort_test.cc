#include "worker/client/spread_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"

namespace capstan {
namespace {

struct Kind {
  const char* name;
  std::function<uint64_t(uint64_t index, Random& random)> number;
};

const Kind kKinds[] = {
    {"uniform", [](uint64_t, Random& random) { return random.Next64(); }},
    {"ascending", [](uint64_t i, Random&) { return i * 7; }},
    {"descending", [](uint64_t i, Random&) { return UINT64_MAX - i; }},
    {"equal", [](uint64_t, Random&) { return uint64_t{5}; }},
    {"two values", [](uint64_t, Random& random) { return 5 + random.UniformInt(2); }},
    {"few values", [](uint64_t, Random& random) { return random.UniformInt(20); }},
    {"the smallest and the largest",
     [](uint64_t, Random& random) { return 0 - random.UniformInt(2); }},
    {"clusters",
     [](uint64_t, Random& random) {
       return random.UniformInt(26) << 48 | random.UniformInt(9999);
     }},
    {"clusters of clusters",
     [](uint64_t, Random& random) {
       uint64_t key = 0;
       for (int i = 0; i < 8; ++i) key = key << 8 | (random.UniformInt(9) == 0 ? 1 : 0);
       return key;
     }},
    {"of all magnitudes",
     [](uint64_t, Random& random) { return random.Next64() >> random.UniformInt(64); }},
    {"powers of 2", [](uint64_t, Random& random) { return uint64_t{1} << random.UniformInt(64); }},
    {"equal but one", [](uint64_t i, Random&) { return i == 0 ? UINT64_MAX : 1000; }},
    {"mostly one value",
     [](uint64_t, Random& random) {
       return random.UniformInt(3) != 0 ? uint64_t{1} << 40 : random.Next64();
     }},
};

void ExpectSorted(SpreadSort& sort, const Kind& kind, size_t count, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << count << " numbers, " << kind.name << ", seed " << seed);
  Random random(seed);
  std::vector<uint64_t> numbers(count);
  for (uint64_t i = 0; i < count; ++i) numbers[i] = kind.number(i, random);
  std::vector<uint64_t> expected = numbers;
  std::sort(expected.begin(), expected.end());
  sort.Sort(absl::MakeSpan(numbers), /*smallest=*/count == 0 ? 0 : expected.front(),
            /*largest=*/count == 0 ? 0 : expected.back());
  EXPECT_TRUE(numbers == expected);
}

TEST(SpreadSortTest, DoesWhatStdSortDoes) {
  SpreadSort sort;
  for (const Kind& kind : kKinds) {
    for (const size_t count : {0, 1, 2, 3, 16, 17, 100, 1000, 8192, 8193, 30'000}) {
      ExpectSorted(sort, kind, count, /*seed=*/count + 1);
    }
  }
}

TEST(SpreadSortTest, SortsManyNumbers) {
  SpreadSort sort;
  for (const Kind& kind : kKinds) ExpectSorted(sort, kind, /*count=*/100'000, /*seed=*/1);
}

}  // namespace
}  // namespace capstan
