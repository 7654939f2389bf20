#include "common/codec/key_list.h"

#include <glog/logging.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

constexpr size_t kGroup = 16;  // gaps with the same number of bits
// 8 bytes from any bit on have this many bits. Wider gaps have 64 bits, and begin with a byte.
constexpr size_t kWidestUnaligned = 56;
constexpr size_t kWidest = 64;

// The bytes are unaligned, and little-endian as every CPU that we run on.
uint64_t WordAt(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

void SetWordAt(uint8_t* bytes, uint64_t word) { std::memcpy(bytes, &word, sizeof(word)); }

size_t BytesOfGaps(size_t count, size_t width) { return (count * width + 7) / 8; }

size_t WidthOf(uint64_t all_bits) {
  if (all_bits == 0) return 0;
  const auto width = static_cast<size_t>(64 - __builtin_clzll(all_bits));
  return width <= kWidestUnaligned ? width : kWidest;
}

// Writes less than 8 bytes beyond the gaps.
void PackGaps(const uint64_t* gaps, size_t count, size_t width, uint8_t* bytes) {
  if (width == kWidest) {
    std::memcpy(bytes, gaps, count * sizeof(uint64_t));
    return;
  }
  uint64_t begun = 0;  // bits of a byte that is not full yet
  for (size_t i = 0, bit = 0; i < count; ++i, bit += width) {
    const uint64_t word = begun | gaps[i] << (bit % 8);
    SetWordAt(bytes + bit / 8, word);
    begun = word >> ((bit % 8 + width) / 8 * 8);
  }
}

// Reads less than 8 bytes beyond the gaps. The result is false if a key would be 2^64 or more.
bool UnpackKeys(const uint8_t* bytes, size_t count, size_t width, uint64_t last, uint64_t* keys) {
  const uint64_t mask = width == 0 ? 0 : ~uint64_t{0} >> (64 - width);
  bool ascends = true;
  for (size_t i = 0, bit = 0; i < count; ++i, bit += width) {
    const uint64_t key = last + (WordAt(bytes + bit / 8) >> (bit % 8) & mask) + 1;
    ascends &= key > last;
    keys[i] = last = key;
  }
  return ascends;
}

absl::Status TooShortError(size_t bytes, size_t keys, size_t key) {
  return absl::InvalidArgumentError(absl::StrCat("expected a list of ", keys, " keys, but its ",
                                                 bytes, " bytes end before key ", key,
                                                 " is complete"));
}

}  // namespace

size_t MostKeyListBytes(size_t count) {
  if (count == 0) return 0;
  return count * sizeof(uint64_t) + (count - 1 + kGroup - 1) / kGroup;
}

// Consecutive keys: their gaps take no bits.
size_t LeastKeyListBytes(size_t count) {
  if (count == 0) return 0;
  return sizeof(uint64_t) + (count - 1 + kGroup - 1) / kGroup;
}

size_t EncodeKeyList(absl::Span<const uint64_t> keys, absl::Span<uint8_t> bytes) {
  CHECK_GE(bytes.size(), MostKeyListBytes(keys.size()));
  if (keys.empty()) return 0;
  uint8_t* at = bytes.data();
  SetWordAt(at, keys[0]);
  at += sizeof(uint64_t);
  bool ascends = true;
  for (size_t begin = 1; begin < keys.size(); begin += kGroup) {
    const size_t count = std::min(kGroup, keys.size() - begin);
    uint64_t gaps[kGroup];
    uint64_t all_bits = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t key = keys[begin + i], last = keys[begin + i - 1];
      ascends &= key > last;
      gaps[i] = key - last - 1;
      all_bits |= gaps[i];
    }
    const size_t width = WidthOf(all_bits);
    *at++ = static_cast<uint8_t>(width);
    PackGaps(gaps, count, width, at);
    at += BytesOfGaps(count, width);
  }
  CHECK(ascends) << "the keys do not ascend";
  return static_cast<size_t>(at - bytes.data());
}

absl::StatusOr<size_t> DecodeKeyList(absl::Span<const uint8_t> bytes, absl::Span<uint64_t> keys) {
  if (keys.empty()) return 0;
  size_t at = sizeof(uint64_t);
  if (bytes.size() < at) return TooShortError(bytes.size(), keys.size(), 0);
  keys[0] = WordAt(bytes.data());
  for (size_t begin = 1; begin < keys.size(); begin += kGroup) {
    const size_t count = std::min(kGroup, keys.size() - begin);
    if (at == bytes.size()) return TooShortError(bytes.size(), keys.size(), begin);
    const size_t width = bytes[at++];
    if (width > kWidestUnaligned && width != kWidest) {
      return absl::InvalidArgumentError(absl::StrCat("expected gaps of 0 to ", kWidestUnaligned,
                                                     " bits or of ", kWidest, ", got ", width,
                                                     " bits from key ", begin, " on"));
    }
    const size_t gap_bytes = BytesOfGaps(count, width);
    const size_t rest = bytes.size() - at;
    if (rest < gap_bytes) return TooShortError(bytes.size(), keys.size(), begin);
    const uint8_t* gaps = bytes.data() + at;
    uint8_t copy[kGroup * sizeof(uint64_t) + sizeof(uint64_t)];
    if (rest < gap_bytes + sizeof(uint64_t)) {
      std::memset(copy, 0, sizeof(copy));
      gaps = static_cast<const uint8_t*>(std::memcpy(copy, gaps, gap_bytes));
    }
    if (!UnpackKeys(gaps, count, width, keys[begin - 1], &keys[begin])) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ascending keys below 2^64, but a key from ", begin, " to ",
                       begin + count - 1, " is larger"));
    }
    at += gap_bytes;
  }
  return at;
}

uint64_t HashKeyList(absl::Span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace capstan
