#include "server/sparse/row_order.h"

#include <glog/logging.h>

#include "server/sparse/row_hash.h"

namespace capstan {
namespace {

// About as many parts as keys, by the upper bits of the hash. Within a part the order is arbitrary.
int PartBits(size_t size) {
  int bits = 1;
  while (size_t{2} << bits <= size) ++bits;
  return bits;
}

}  // namespace

RowOrder::RowOrder(absl::Span<const uint64_t> keys) : size_(keys.size()) {
  CHECK_LE(size_, kMostKeys);
  const int bits = PartBits(size_);
  const size_t part_count = size_t{1} << bits;
  // Filled as far as they are used: the whole of them would take longer than a small batch.
  std::array<uint16_t, kMostKeys> begins, parts, ranks;
  for (size_t part = 0; part < part_count; ++part) begins[part] = 0;
  for (size_t i = 0; i < size_; ++i) {
    parts[i] = static_cast<uint16_t>(RowHashOf(keys[i]) >> (64 - bits));
  }
  // First the rank of each key, then its place: a CPU that stores at an address which depends on a
  // count often waits before it reads the next count.
  for (size_t i = 0; i < size_; ++i) ranks[i] = begins[parts[i]]++;
  uint16_t begin = 0;
  for (size_t part = 0; part < part_count; ++part) {
    const uint16_t count = begins[part];
    begins[part] = begin;
    begin = static_cast<uint16_t>(begin + count);
  }
  for (size_t i = 0; i < size_; ++i) {
    const size_t place = size_t{begins[parts[i]]} + ranks[i];
    keys_[place] = keys[i];
    indices_[place] = static_cast<uint16_t>(i);
  }
}

}  // namespace capstan
