#include "common/codec/float32_codec.h"

#include <glog/logging.h>

#include <cstring>

#include "common/codec/codec_errors.h"

namespace capstan {
namespace {

class Float32Codec final : public Codec {
 public:
  CodecType type() const override { return CodecType::kFloat32; }
  std::string name() const override { return "float32"; }
  size_t EncodedBytes(size_t n) const override { return n * sizeof(float); }

  absl::StatusOr<Norms> Encode(absl::Span<const float> values, const DrawKey& /*key*/,
                               absl::Span<float> residual,
                               absl::Span<uint8_t> bytes) const override {
    CHECK(residual.empty()) << "float32 has no residual";
    CheckEncodeSpans(*this, values, residual, bytes);
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return Norms();
  }

  absl::Status Check(absl::Span<const uint8_t> bytes, size_t n) const override {
    return CheckEncodedLength(*this, bytes, n);
  }

  void Decode(absl::Span<const uint8_t> bytes, size_t n, size_t begin,
              absl::Span<float> values) const override {
    CheckDecodeSpans(*this, bytes, n, begin, values.size());
    if (values.empty()) return;
    std::memcpy(values.data(), bytes.data() + begin * sizeof(float), values.size() * sizeof(float));
  }

  void DecodeAdd(absl::Span<const uint8_t> bytes, size_t n, size_t begin,
                 absl::Span<float> sum) const override {
    CheckDecodeSpans(*this, bytes, n, begin, sum.size());
    const uint8_t* encoded = bytes.data() + begin * sizeof(float);
    for (size_t i = 0; i < sum.size(); ++i) {
      float value;
      std::memcpy(&value, encoded + i * sizeof(float), sizeof(value));
      sum[i] += value;
    }
  }
};

}  // namespace

std::shared_ptr<const Codec> MakeFloat32Codec() { return std::make_shared<Float32Codec>(); }

}  // namespace capstan
