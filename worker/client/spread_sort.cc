#include "worker/client/spread_sort.h"

#include <algorithm>

namespace capstan {
namespace {

// At most this many numbers are left to the insertion at the end.
constexpr size_t kFewNumbers = 16;
// This many numbers, and what finds their buckets, stay in a CPU's second cache. They get a bucket
// each. More numbers get fewer buckets, which are split again.
constexpr size_t kNumbersInCache = 8192;
constexpr size_t kMostCoarseBuckets = 512;
// Numbers that are still together after this many splits are given to std::sort.
constexpr int kMostSplits = 6;

// All numbers are near their place.
void SortByInsertion(absl::Span<uint64_t> numbers) {
  for (size_t i = 1; i < numbers.size(); ++i) {
    const uint64_t number = numbers[i];
    if (number >= numbers[i - 1]) continue;
    size_t hole = i;
    do {
      numbers[hole] = numbers[hole - 1];
      --hole;
    } while (hole > 0 && number < numbers[hole - 1]);
    numbers[hole] = number;
  }
}

size_t BucketCount(size_t numbers) {
  if (numbers <= kNumbersInCache) return numbers;
  return std::min(numbers / (kNumbersInCache / 4), kMostCoarseBuckets);
}

}  // namespace

void SpreadSort::Sort(absl::Span<uint64_t> numbers, uint64_t smallest, uint64_t largest) {
  if (numbers.size() > kFewNumbers) {
    PutIntoBuckets({numbers.data(), numbers.size(), /*splits=*/1}, smallest, largest);
    while (!parts_.empty()) {
      const Part part = parts_.back();
      parts_.pop_back();
      Split(part);
    }
  }
  SortByInsertion(numbers);
}

void SpreadSort::Split(Part part) {
  uint64_t smallest = UINT64_MAX, largest = 0, last = 0;
  bool is_sorted = true;
  for (size_t i = 0; i < part.size; ++i) {
    const uint64_t number = part.numbers[i];
    smallest = std::min(smallest, number);
    largest = std::max(largest, number);
    is_sorted &= number >= last;
    last = number;
  }
  if (is_sorted) return;
  if (part.splits == kMostSplits) {
    std::sort(part.numbers, part.numbers + part.size);
    return;
  }
  ++part.splits;
  PutIntoBuckets(part, smallest, largest);
}

void SpreadSort::PutIntoBuckets(Part part, uint64_t smallest, uint64_t largest) {
  copy_.assign(part.numbers, part.numbers + part.size);
  FindBuckets(smallest, largest, BucketCount(part.size));
  // First the rank of each number in its bucket, then its address: a CPU that stores at an address
  // which depends on a count often waits before it reads the next count.
  for (size_t i = 0; i < part.size; ++i) ranks_[i] = begins_[buckets_[i]]++;
  uint32_t begin = 0, largest_count = 0;
  for (uint32_t& count_or_begin : begins_) {
    const uint32_t count = count_or_begin;
    largest_count = std::max(largest_count, count);
    count_or_begin = begin;
    begin += count;
  }
  for (size_t i = 0; i < part.size; ++i) {
    part.numbers[begins_[buckets_[i]] + ranks_[i]] = copy_[i];
  }
  if (largest_count <= kFewNumbers) return;
  for (size_t bucket = 0; bucket + 1 < begins_.size(); ++bucket) {
    const size_t size = begins_[bucket + 1] - begins_[bucket];
    if (size > kFewNumbers) parts_.push_back({part.numbers + begins_[bucket], size, part.splits});
  }
}

void SpreadSort::FindBuckets(uint64_t smallest, uint64_t largest, size_t bucket_count) {
  using Wide = unsigned __int128;
  // The largest number has the last bucket, the others have theirs in proportion. No value has
  // more than one bucket.
  const Wide range = Wide{largest - smallest} + 1;
  bucket_count = static_cast<size_t>(std::min<Wide>(bucket_count, range));
  const auto factor = static_cast<uint64_t>(((Wide{bucket_count} << 64) - 1) / range);
  buckets_.resize(copy_.size());
  for (size_t i = 0; i < copy_.size(); ++i) {
    const Wide scaled = Wide{copy_[i] - smallest} * factor + factor;
    buckets_[i] = static_cast<uint32_t>(scaled >> 64);
  }
  begins_.assign(bucket_count + 1, 0);
  ranks_.resize(copy_.size());
}

}  // namespace capstan
