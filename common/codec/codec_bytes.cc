#include "common/codec/codec_bytes.h"

namespace capstan {
namespace {

absl::string_view NameOf(CodecType codec) {
  switch (codec) {
    case CodecType::kFloat32:
      return "float32";
    case CodecType::kBfloat16:
      return "bfloat16";
    case CodecType::kInt8:
      return "int8";
    case CodecType::kTopkFloat32:
      return "topk_float32";
    case CodecType::kTopkBfloat16:
      return "topk_bfloat16";
    case CodecType::kTopkInt8:
      return "topk_int8";
    case CodecType::kChanged:
      return "changed";
  }
  return "unknown";
}

}  // namespace

void CodecBytes::Add(const CodecBytes& other) {
  for (size_t i = 0; i < kCodecs; ++i) bytes_[i] += other.bytes_[i];
}

void CodecBytes::ForEach(
    absl::FunctionRef<void(absl::string_view codec, uint64_t bytes)> use) const {
  for (size_t i = 0; i < kCodecs; ++i) {
    const auto codec = static_cast<CodecType>(i);
    if (bytes_[i] > 0 || codec == CodecType::kFloat32) use(NameOf(codec), bytes_[i]);
  }
}

}  // namespace capstan
