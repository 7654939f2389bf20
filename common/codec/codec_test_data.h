#ifndef COMMON_CODEC_CODEC_TEST_DATA_H_
#define COMMON_CODEC_CODEC_TEST_DATA_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/codec/codec.h"

// Inputs of the codecs' tests, and calls of codecs that fail the test on an error.
namespace capstan {

inline DrawKey TestKey() {
  DrawKey key;
  key.seed = 0x0123456789abcdef;
  key.table = TableId(3);
  key.worker = WorkerId(5);
  key.step = Step(0x700000002);
  key.first_element = uint64_t{11} << 35;
  return key;
}

// Normal values whose magnitude changes from one 100 elements to the next.
inline std::vector<float> TestValues(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(n);
  float magnitude = 1;
  for (size_t i = 0; i < n; ++i) {
    if (i % 100 == 0) magnitude = std::exp(4 * random.Normal());
    values[i] = magnitude * random.Normal();
  }
  return values;
}

// `residual` may be empty, and becomes the new one.
inline std::vector<uint8_t> Encoded(const Codec& codec, absl::Span<const float> values,
                                    const DrawKey& key, absl::Span<float> residual = {}) {
  std::vector<uint8_t> bytes(codec.EncodedBytes(values.size()), 0xaa);
  const auto norms = codec.Encode(values, key, residual, absl::MakeSpan(bytes));
  EXPECT_TRUE(norms.ok()) << norms.status();
  return bytes;
}

inline std::vector<float> Decoded(const Codec& codec, absl::Span<const uint8_t> bytes, size_t n) {
  const absl::Status status = codec.Check(bytes, n);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<float> values(n, -123);
  if (status.ok()) codec.Decode(bytes, n, /*begin=*/0, absl::MakeSpan(values));
  return values;
}

inline std::vector<uint32_t> Bits(absl::Span<const float> values) {
  std::vector<uint32_t> bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

}  // namespace capstan

#endif  // COMMON_CODEC_CODEC_TEST_DATA_H_
