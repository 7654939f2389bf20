#ifndef COMMON_CODEC_CODEC_BYTES_H_
#define COMMON_CODEC_CODEC_BYTES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "common/codec/codec.h"

namespace capstan {

// Counts bytes by the codec in which they travel. Not thread-safe.
class CodecBytes {
 public:
  // A peer may name any codec.
  void Add(CodecType codec, uint64_t bytes) { bytes_[IndexOf(codec)] += bytes; }
  void Add(const CodecBytes& other);

  uint64_t of(CodecType codec) const { return bytes_[IndexOf(codec)]; }

  // Calls `use` with "float32", and with each other codec that has bytes.
  void ForEach(absl::FunctionRef<void(absl::string_view codec, uint64_t bytes)> use) const;

 private:
  static constexpr size_t kCodecs = static_cast<size_t>(CodecType::kChanged) + 1;

  // 0: no codec has this number.
  static size_t IndexOf(CodecType codec) {
    const auto number = static_cast<size_t>(codec);
    return number < kCodecs ? number : 0;
  }

  std::array<uint64_t, kCodecs> bytes_ = {};
};

}  // namespace capstan

#endif  // COMMON_CODEC_CODEC_BYTES_H_
