#ifndef COMMON_CODEC_CODEC_H_
#define COMMON_CODEC_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace capstan {

// The encoding of float32 values as bytes. Numbered as v1::Codec. A peer may send any number.
enum class CodecType : int32_t {
  kFloat32 = 1,
  kBfloat16 = 2,
  kInt8 = 3,
  kTopkFloat32 = 4,
  kTopkBfloat16 = 5,
  kTopkInt8 = 6,
  kChanged = 7,  // only of replies: changed_values.h; no Codec has it
};

// Sends few of the values.
inline bool IsTopk(CodecType type) {
  return type == CodecType::kTopkFloat32 || type == CodecType::kTopkBfloat16 ||
         type == CodecType::kTopkInt8;
}

// What the draws of stochastic rounding depend on. A retry has the same key, so the same bytes.
struct DrawKey {
  uint64_t seed = 0;  // of the job
  TableId table;
  WorkerId worker;
  Step step;
  uint64_t first_element = 0;  // of the slice, in its table
};

// Turns the float32 values of a slice into fewer bytes and back. The bytes are the same on every
// CPU and GPU; README.md has their layout. Immutable, so thread-safe.
class Codec {
 public:
  // Sums of squares of an Encode with error feedback.
  struct Norms {
    double gradient = 0;  // of `values`
    double residual = 0;  // of the new residual
  };

  // `begin` of a decoded part is a multiple of this.
  static constexpr size_t kDecodeAlignment = 256;

  virtual ~Codec() = default;

  virtual CodecType type() const = 0;
  // As MakeCodec reads it: "topk:0.01:int8".
  virtual std::string name() const = 0;
  // Decoded values can differ from the encoded ones.
  bool is_lossy() const { return type() != CodecType::kFloat32; }

  // Length of `n` encoded values.
  virtual size_t EncodedBytes(size_t n) const = 0;
  // How many of `n` values are sent; the others count as 0.
  virtual size_t SentCount(size_t n) const { return n; }

  // Writes EncodedBytes(values.size()) bytes to `bytes`, for values + residual. The residual
  // becomes what these bytes lack: values + residual - decoded bytes, in float32. An empty residual
  // is none; then Norms are 0. INVALID_ARGUMENT: a value, or its sum with the residual, is a NaN or
  // an infinity. The residual is then unchanged, and the bytes are undefined. (float32 sends every
  // value, and has no residual.)
  virtual absl::StatusOr<Norms> Encode(absl::Span<const float> values, const DrawKey& key,
                                       absl::Span<float> residual,
                                       absl::Span<uint8_t> bytes) const = 0;

  // INVALID_ARGUMENT, with what was expected and got, unless the bytes decode to `n` values, all of
  // them finite. (float32 checks the length only.) Only checked bytes may be decoded.
  virtual absl::Status Check(absl::Span<const uint8_t> bytes, size_t n) const = 0;

  // Decode the elements [begin, begin + size of the span) of `n` encoded values.
  virtual void Decode(absl::Span<const uint8_t> bytes, size_t n, size_t begin,
                      absl::Span<float> values) const = 0;
  // sum[i] += decoded value.
  virtual void DecodeAdd(absl::Span<const uint8_t> bytes, size_t n, size_t begin,
                         absl::Span<float> sum) const = 0;
};

// The codec of a text: float32, bfloat16, int8, topk:R or topk:R:VALUES. R below 1 is the ratio of
// values that are sent, from 1 on their number. VALUES is float32 (the default), bfloat16 or int8.
// INVALID_ARGUMENT says what was expected.
absl::StatusOr<std::shared_ptr<const Codec>> MakeCodec(absl::string_view text);

}  // namespace capstan

#endif  // COMMON_CODEC_CODEC_H_
