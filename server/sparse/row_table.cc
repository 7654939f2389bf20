#include "server/sparse/row_table.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>

#include "server/sparse/row_hash.h"

namespace capstan {
namespace {

// Growth begins when this part of the slots is taken. A larger one makes lookups longer, a smaller
// one takes more memory.
constexpr double kFullLoad = 0.9;
constexpr size_t kFirstHomes = 8;
// Memory of hashes is asked for this many keys before they are compared.
constexpr size_t kHashesAhead = 32;
// Keys whose hashes are in the CPU's cache when they are inserted.
constexpr size_t kChunk = 64;
// Growth adds an eighth of the homes. Each new row moves the rows of one home while new memory is
// touched, which takes time, and of two homes later. So all have moved after 8 % more rows, while
// there is room for 12 %. At the end the few homes that did not move yet have a load of 0.97.
constexpr size_t kGrowthDivisor = 8;

// Scales the hash to [0, count). Keeps the order.
size_t Scale(uint64_t hash, size_t count) {
  return static_cast<size_t>((static_cast<unsigned __int128>(hash) * count) >> 64);
}

// Bit i says whether hashes[i] is `hash`. Branches would be mispredicted here.
unsigned Matches(const uint64_t* hashes, uint64_t hash) {
  unsigned mask = 0;
  for (unsigned i = 0; i < 8; ++i) mask |= unsigned{hashes[i] == hash} << i;
  return mask;
}

size_t FirstBit(unsigned mask) { return static_cast<size_t>(__builtin_ctz(mask)); }

}  // namespace

RowTable::RowTable(size_t floats_per_row)
    : floats_per_row_(floats_per_row),
      bucket_bytes_(kSlots * (sizeof(uint64_t) + floats_per_row * sizeof(float))),
      row_of_zero_(new float[floats_per_row]),
      home_count_(kFirstHomes),
      old_home_count_(kFirstHomes) {
  CHECK_GT(floats_per_row, 0u);
  SetBucketCount(kFirstHomes + 1);
}

void RowTable::SetBucketCount(size_t count) {
  memory_.Grow(count * bucket_bytes_);
  bucket_count_ = count;
}

size_t RowTable::UntouchedBuckets() const {
  const size_t new_frontier = frontier_ * home_count_ / old_home_count_;
  return new_frontier - std::min(new_frontier, old_home_count_);
}

size_t RowTable::bytes() const { return memory_.size() - UntouchedBuckets() * bucket_bytes_; }

size_t RowTable::HomeOf(uint64_t hash) const {
  const size_t old_home = Scale(hash, old_home_count_);
  return old_home < frontier_ ? old_home : Scale(hash, home_count_);
}

bool RowTable::FindSlot(uint64_t hash, size_t home, Slot* slot) const {
  for (size_t bucket = home;; ++bucket) {
    const unsigned matches = Matches(Hashes(bucket), hash);
    if (matches != 0) {
      *slot = {bucket, FirstBit(matches)};
      return true;
    }
    if (!IsFull(bucket)) return false;
  }
}

float* RowTable::FindRow(uint64_t hash, size_t home) const {
  if (hash == 0) return has_key_zero_ ? row_of_zero_.get() : nullptr;
  Slot slot;
  return FindSlot(hash, home, &slot) ? Row(slot) : nullptr;
}

void RowTable::PrefetchHashes(size_t bucket) const {
  const char* hashes = reinterpret_cast<const char*>(Hashes(bucket));
  // After rows of odd size they lie in two cache lines.
  __builtin_prefetch(hashes);
  __builtin_prefetch(hashes + kSlots * sizeof(uint64_t) - 1);
}

void RowTable::Find(absl::Span<const uint64_t> keys, absl::Span<float*> rows) const {
  CHECK_EQ(keys.size(), rows.size());
  // The hashes that wait for their memory, in a ring. Short work between prefetches lets many of
  // them be under way. Most of the time goes to the search for pages, and a CPU does not search
  // beyond the few instructions that it has begun.
  uint64_t hashes[kHashesAhead];
  size_t homes[kHashesAhead];
  for (size_t i = 0; i < keys.size() + kHashesAhead; ++i) {
    const size_t slot = i % kHashesAhead;
    if (i >= kHashesAhead && i - kHashesAhead < keys.size()) {
      rows[i - kHashesAhead] = FindRow(hashes[slot], homes[slot]);
    }
    if (i >= keys.size()) continue;
    hashes[slot] = RowHashOf(keys[i]);
    homes[slot] = HomeOf(hashes[slot]);
    PrefetchHashes(homes[slot]);
  }
}

void RowTable::Insert(absl::Span<const uint64_t> keys, FillRow fill) {
  for (size_t begin = 0; begin < keys.size(); begin += kChunk) {
    const absl::Span<const uint64_t> chunk = keys.subspan(begin, kChunk);
    float* rows[kChunk];
    Find(chunk, {rows, chunk.size()});
    for (size_t i = 0; i < chunk.size(); ++i) {
      if (rows[i] != nullptr) continue;
      const uint64_t hash = RowHashOf(chunk[i]);
      const bool came_twice = FindRow(hash, HomeOf(hash)) != nullptr;
      if (!came_twice) fill(chunk[i], InsertKey(chunk[i]));
    }
  }
}

void RowTable::Reserve(size_t rows) {
  CHECK_EQ(size(), 0u);
  const double homes = static_cast<double>(rows) / (kFullLoad * kSlots);
  if (homes <= static_cast<double>(home_count_)) return;
  home_count_ = old_home_count_ = static_cast<size_t>(homes) + 1;
  SetBucketCount(home_count_ + 1);
}

float* RowTable::InsertKey(uint64_t key) {
  if (key == 0) {
    has_key_zero_ = true;
    return row_of_zero_.get();
  }
  const double slots = static_cast<double>(home_count_ * kSlots);
  if (frontier_ == 0 && static_cast<double>(size_) >= kFullLoad * slots) StartGrowth();
  if (frontier_ > 0) MoveHomes();
  if (frontier_ > 0 && UntouchedBuckets() == 0) MoveHomes();
  ++size_;
  return Place(RowHashOf(key));
}

float* RowTable::Place(uint64_t hash) {
  size_t bucket = HomeOf(hash);
  while (IsFull(bucket)) ++bucket;
  if (bucket + 1 == bucket_count_) SetBucketCount(bucket_count_ + 1);
  const size_t index = FirstBit(Matches(Hashes(bucket), 0));
  Hashes(bucket)[index] = hash;
  return Row({bucket, index});
}

void RowTable::Erase(absl::Span<const uint64_t> keys) {
  for (const uint64_t key : keys) {
    const uint64_t hash = RowHashOf(key);
    Slot slot;
    if (key == 0) {
      has_key_zero_ = false;
    } else if (FindSlot(hash, HomeOf(hash), &slot)) {
      EraseSlot(slot);
      --size_;
    }
  }
}

void RowTable::EraseSlot(Slot hole) {
  // A later hash moves into the hole if it found no room there, and leaves another hole. No such
  // hash is behind a bucket with room.
  bool is_full = IsFull(hole.bucket);
  for (size_t bucket = hole.bucket + 1; is_full; ++bucket) {
    is_full = IsFull(bucket);
    for (size_t i = 0; i < kSlots && Hashes(bucket)[i] != 0; ++i) {
      if (HomeOf(Hashes(bucket)[i]) > hole.bucket) continue;
      MoveRow({bucket, i}, hole);
      hole = {bucket, i};
      break;
    }
  }
  size_t last = kSlots - 1;
  while (Hashes(hole.bucket)[last] == 0) --last;
  if (last != hole.index) MoveRow({hole.bucket, last}, hole);
  Hashes(hole.bucket)[last] = 0;
}

void RowTable::MoveRow(Slot from, Slot to) {
  Hashes(to.bucket)[to.index] = Hashes(from.bucket)[from.index];
  std::memcpy(Row(to), Row(from), floats_per_row_ * sizeof(float));
}

void RowTable::StartGrowth() {
  old_home_count_ = frontier_ = home_count_;
  home_count_ += home_count_ / kGrowthDivisor;
  SetBucketCount(std::max(bucket_count_, home_count_ + 1));
}

void RowTable::MoveHomes() {
  // From a bucket behind one with room, to one with room: all that has its home there is there.
  size_t begin = frontier_ - 1;
  size_t end = frontier_;
  while (IsFull(end - 1)) ++end;
  while (begin > 0 && IsFull(begin - 1)) --begin;
  // The next call's are on their way.
  for (size_t i = 1; i <= kSlots; ++i) PrefetchHashes(begin - std::min(begin, i));
  frontier_ = begin;
  MoveBuckets(begin, end);
}

void RowTable::MoveBuckets(size_t begin, size_t end) {
  const auto* first = reinterpret_cast<const char*>(Hashes(begin));
  moved_.assign(first, first + (end - begin) * bucket_bytes_);
  for (size_t bucket = begin; bucket < end; ++bucket) {
    for (size_t i = 0; i < kSlots && Hashes(bucket)[i] != 0; ++i) {
      PrefetchHashes(HomeOf(Hashes(bucket)[i]));
      Hashes(bucket)[i] = 0;
    }
  }
  for (size_t offset = 0; offset < moved_.size(); offset += bucket_bytes_) {
    const auto* hashes = reinterpret_cast<const uint64_t*>(moved_.data() + offset);
    const auto* rows = reinterpret_cast<const float*>(hashes + kSlots);
    for (size_t i = 0; i < kSlots && hashes[i] != 0; ++i) {
      std::memcpy(Place(hashes[i]), rows + i * floats_per_row_, floats_per_row_ * sizeof(float));
    }
  }
}

void RowTable::Visit(uint64_t first, uint64_t last, UseRow use) const {
  if (first == 0 && has_key_zero_) use(0, row_of_zero_.get());
  // Homes are in the order of hashes, also while the table grows. What has its home up to the last
  // one is not behind a later bucket with room.
  const size_t last_home = HomeOf(last);
  for (size_t bucket = HomeOf(first);; ++bucket) {
    const uint64_t* const hashes = Hashes(bucket);
    for (size_t i = 0; i < kSlots && hashes[i] != 0; ++i) {
      if (hashes[i] - first <= last - first) use(hashes[i], Row({bucket, i}));
    }
    if (bucket >= last_home && !IsFull(bucket)) return;
  }
}

std::vector<uint64_t> RowTable::SortedKeys() const {
  std::vector<uint64_t> keys;
  keys.reserve(size());
  if (has_key_zero_) keys.push_back(0);
  for (size_t bucket = 0; bucket < bucket_count_; ++bucket) {
    for (size_t i = 0; i < kSlots && Hashes(bucket)[i] != 0; ++i) {
      keys.push_back(KeyOfRowHash(Hashes(bucket)[i]));
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace capstan
