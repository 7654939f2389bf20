#include "common/codec/changed_values.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The bytes are unaligned, and little-endian as every CPU that we run on.
uint32_t WordAt(absl::Span<const uint8_t> bytes, size_t i) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + i * sizeof(word), sizeof(word));
  return word;
}

}  // namespace

size_t MostChangedBytes(const Codec& codec, size_t n) {
  return std::min(4 * codec.EncodedBytes(n), n * sizeof(float));
}

size_t CountChanged(absl::Span<const float> from, absl::Span<const float> to) {
  CHECK_EQ(from.size(), to.size());
  size_t count = 0;
  for (size_t i = 0; i < to.size(); ++i) count += BitsOf(from[i]) != BitsOf(to[i]) ? 1 : 0;
  return count;
}

void EncodeChanged(absl::Span<const float> from, absl::Span<const float> to,
                   absl::Span<uint8_t> bytes) {
  uint8_t* index = bytes.data();
  uint8_t* value = bytes.data() + bytes.size() / 2;
  for (uint32_t i = 0; i < to.size(); ++i) {
    if (BitsOf(from[i]) == BitsOf(to[i])) continue;
    std::memcpy(index, &i, sizeof(i));
    std::memcpy(value, &to[i], sizeof(float));
    index += sizeof(i);
    value += sizeof(float);
  }
  CHECK(value == bytes.data() + bytes.size()) << "the bytes are for another number of elements";
}

absl::Status CheckChanged(absl::Span<const uint8_t> bytes, size_t n) {
  const size_t count = bytes.size() / ChangedBytes(1);
  if (bytes.size() != ChangedBytes(count) || count > n) {
    return absl::InvalidArgumentError(absl::StrCat("expected at most ", n, " changed elements of ",
                                                   ChangedBytes(1), " bytes each, got ",
                                                   bytes.size(), " bytes"));
  }
  for (size_t j = 0; j < count; ++j) {
    const uint32_t index = WordAt(bytes, j);
    if (index < n && (j == 0 || WordAt(bytes, j - 1) < index)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("expected ascending indices below ", n, ", got ", index, " as index ", j));
  }
  return absl::OkStatus();
}

void ApplyChanged(absl::Span<const uint8_t> bytes, absl::Span<float> values) {
  const size_t count = bytes.size() / ChangedBytes(1);
  const uint8_t* const sent = bytes.data() + count * sizeof(uint32_t);
  for (size_t j = 0; j < count; ++j) {
    std::memcpy(&values[WordAt(bytes, j)], sent + j * sizeof(float), sizeof(float));
  }
}

}  // namespace capstan
