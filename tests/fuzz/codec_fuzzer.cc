// Encodes the floats of the input. Decodes the result, a damaged copy of it, and the input itself.
#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/codec/changed_values.h"
#include "common/codec/codec.h"
#include "tests/fuzz/fuzz_input.h"

namespace capstan {
namespace {

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

constexpr size_t kMaxValues = 5000;

const Codec& ChosenCodec(uint8_t choice) {
  static const auto* const codecs = [] {
    auto* const made = new std::vector<std::shared_ptr<const Codec>>;
    for (const absl::string_view text : {"float32", "bfloat16", "int8", "topk:0.1", "topk:3",
                                         "topk:0.01:bfloat16", "topk:0.5:int8"}) {
      made->push_back(*MakeCodec(text));
    }
    return made;
  }();
  return *(*codecs)[choice % codecs->size()];
}

// As many as `n`; zeros follow the end of the text.
Floats FloatsOf(absl::string_view text, size_t n) {
  Floats floats(n, 0.0f);
  const size_t size = std::min(text.size(), n * sizeof(float));
  if (size > 0) std::memcpy(floats.data(), text.data(), size);
  return floats;
}

bool HasSameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Equal, or both NaN.
void CheckSame(float a, float b) { CHECK(a == b || (std::isnan(a) && std::isnan(b))) << a << b; }

void CheckNear(double value, double expected) {
  CHECK(std::fabs(value - expected) <= 1e-9 * expected) << value << ", expected " << expected;
}

// Decodes bytes that pass the check: as a whole, in parts, and added to a sum.
void DecodeChecked(const Codec& codec, const Bytes& bytes, size_t n, size_t part) {
  if (!codec.Check(bytes, n).ok()) return;
  Floats whole(n, -1.0f);
  codec.Decode(bytes, n, /*begin=*/0, absl::MakeSpan(whole));
  for (const float value : whole) {
    CHECK(std::isfinite(value) || codec.type() == CodecType::kFloat32) << value;
  }
  Floats parts(n, -1.0f);
  Floats sum(n, 0.75f);
  for (size_t begin = 0; begin < n; begin += part) {
    codec.Decode(bytes, n, begin, absl::MakeSpan(parts).subspan(begin, part));
    codec.DecodeAdd(bytes, n, begin, absl::MakeSpan(sum).subspan(begin, part));
  }
  CHECK(HasSameBits(parts, whole));
  for (size_t i = 0; i < n; ++i) CheckSame(sum[i], 0.75f + whole[i]);
}

// Applies bytes that pass the check. What they change is what they say.
void ApplyCheckedChanges(const Bytes& bytes, size_t n) {
  if (!CheckChanged(bytes, n).ok()) return;
  const Floats before(n, 0.75f);
  Floats after = before;
  ApplyChanged(bytes, absl::MakeSpan(after));
  Bytes again(ChangedBytes(CountChanged(before, after)));
  EncodeChanged(before, after, absl::MakeSpan(again));
  Floats applied = before;
  ApplyChanged(again, absl::MakeSpan(applied));
  CHECK(HasSameBits(applied, after));
  CHECK_LE(again.size(), bytes.size());
}

// The residual and the norms of an encoding are what the bytes lack of `sums`.
void CheckResidual(const Codec& codec, const Bytes& bytes, const Floats& values, const Floats& sums,
                   const Floats& residual, const Codec::Norms& norms) {
  const size_t n = values.size();
  CHECK(codec.Check(bytes, n).ok());
  Floats decoded(n);
  codec.Decode(bytes, n, /*begin=*/0, absl::MakeSpan(decoded));
  double gradient = 0, rest = 0;
  for (size_t i = 0; i < n; ++i) {
    CHECK_EQ(residual[i], sums[i] - decoded[i]) << i;
    gradient += double{values[i]} * values[i];
    rest += double{residual[i]} * residual[i];
  }
  CheckNear(norms.gradient, gradient);
  CheckNear(norms.residual, rest);
}

// The encoded values + residual; empty if they are refused.
Bytes EncodeWithResidual(const Codec& codec, const Floats& values, const Floats& residual) {
  const DrawKey key;
  Bytes bytes(codec.EncodedBytes(values.size()));
  if (codec.type() == CodecType::kFloat32) {
    CHECK(codec.Encode(values, key, /*residual=*/{}, absl::MakeSpan(bytes)).ok());
    return bytes;
  }
  Floats sums(values.size());
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = values[i] + residual[i];
  const bool is_finite =
      std::all_of(sums.begin(), sums.end(), [](float sum) { return std::isfinite(sum); });
  Floats new_residual = residual;
  const auto norms = codec.Encode(values, key, absl::MakeSpan(new_residual), absl::MakeSpan(bytes));
  CHECK_EQ(norms.ok(), is_finite) << norms.status();
  if (!norms.ok()) {
    CHECK(HasSameBits(new_residual, residual));
    return {};
  }
  CheckResidual(codec, bytes, values, sums, new_residual, *norms);
  Bytes same(bytes.size());
  CHECK(codec.Encode(sums, key, /*residual=*/{}, absl::MakeSpan(same)).ok());
  CHECK(same == bytes);
  return bytes;
}

// Each damage: where, and the new byte.
void Damage(absl::string_view damages, Bytes& bytes) {
  for (size_t i = 0; i + 3 <= damages.size() && !bytes.empty(); i += 3) {
    const auto byte = [&](size_t at) { return static_cast<uint8_t>(damages[i + at]); };
    bytes[(byte(0) | size_t{byte(1)} << 8) % bytes.size()] = byte(2);
  }
}

Bytes ChangesOf(const Floats& from, const Floats& to) {
  Bytes bytes(ChangedBytes(CountChanged(from, to)));
  EncodeChanged(from, to, absl::MakeSpan(bytes));
  Floats applied = from;
  CHECK(CheckChanged(bytes, from.size()).ok());
  ApplyChanged(bytes, absl::MakeSpan(applied));
  CHECK(HasSameBits(applied, to));
  return bytes;
}

void Fuzz(FuzzInput input) {
  const Codec& codec = ChosenCodec(input.TakeByte());
  const size_t low = input.TakeByte();
  const size_t n = (low | size_t{input.TakeByte()} << 8) % (kMaxValues + 1);
  const size_t part = (input.TakeByte() % 16 + 1) * Codec::kDecodeAlignment;
  const absl::string_view damages = input.TakePart();
  const absl::string_view rest = input.rest();
  const size_t half = rest.size() / 8 * 4;

  const Floats first = FloatsOf(rest.substr(0, half), n), second = FloatsOf(rest.substr(half), n);
  Bytes changes = ChangesOf(first, second);
  Damage(damages, changes);
  ApplyCheckedChanges(changes, n);
  Bytes bytes = EncodeWithResidual(codec, first, second);
  DecodeChecked(codec, bytes, n, part);
  Damage(damages, bytes);
  DecodeChecked(codec, bytes, n, part);
  bytes.assign(rest.begin(), rest.end());
  ApplyCheckedChanges(bytes, n);
  DecodeChecked(codec, bytes, n, part);
  bytes.resize(codec.EncodedBytes(n));
  DecodeChecked(codec, bytes, n, part);
}

}  // namespace
}  // namespace capstan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::Fuzz(capstan::FuzzInput(data, size));
  return 0;
}
