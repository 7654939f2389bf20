#include "worker/client_api/convert_floats.h"

#include <cstring>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "common/tensor/bfloat16.h"
#include "worker/client_api/capstan.h"

namespace capstan {
namespace {

// IEEE 754 binary16: sign, 5 bits of exponent (bias 15), 10 bits of mantissa.
struct Float16 {
  uint16_t bits = 0;
};

constexpr uint32_t kInfinity = 0x7f800000;  // of float32
constexpr int kMantissaDifference = 23 - 10;
constexpr uint32_t kBiasDifference = (127 - 15) << 23;

float ToFloat32(Float16 value) {
  const uint32_t magnitude = value.bits & 0x7fffu;
  uint32_t bits = magnitude << kMantissaDifference;
  if (magnitude >= 0x7c00) {
    bits |= kInfinity;  // infinity or NaN
  } else {
    // The product is exact, also for subnormal numbers.
    bits = absl::bit_cast<uint32_t>(absl::bit_cast<float>(bits) * 0x1p112f);
  }
  return absl::bit_cast<float>(bits | static_cast<uint32_t>(value.bits & 0x8000u) << 16);
}

uint32_t MagnitudeToFloat16(uint32_t bits) {
  if (bits > kInfinity) return 0x7e00;  // NaN
  const auto value = absl::bit_cast<float>(bits);
  if (value >= 65520.0f) return 0x7c00;  // half a unit above the largest number
  // Numbers from 0.5 on are multiples of 2^-24, as subnormal float16 are.
  if (value < 0x1p-14f) {
    return absl::bit_cast<uint32_t>(value + 0.5f) - absl::bit_cast<uint32_t>(0.5f);
  }
  const uint32_t is_odd = (bits >> kMantissaDifference) & 1;
  return (bits - kBiasDifference + 0xfff + is_odd) >> kMantissaDifference;
}

Float16 ToFloat16(float value) {
  const auto bits = absl::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  return Float16{static_cast<uint16_t>(sign | MagnitudeToFloat16(bits & 0x7fffffff))};
}

absl::Status UnknownType(int32_t dtype) {
  return absl::InvalidArgumentError(absl::StrCat("dtype: expected a capstan_dtype, got ", dtype));
}

template <typename Number>
void Widen(const void* from, absl::Span<float> to) {
  const auto* numbers = static_cast<const Number*>(from);
  for (float& value : to) value = ToFloat32(*numbers++);
}

}  // namespace

absl::Status ToFloats(const void* from, int32_t dtype, absl::Span<float> to) {
  if (from == nullptr) return absl::InvalidArgumentError("expected numbers, got NULL");
  switch (dtype) {
    case CAPSTAN_FLOAT32:
      std::memcpy(to.data(), from, to.size() * sizeof(float));
      return absl::OkStatus();
    case CAPSTAN_FLOAT16:
      Widen<Float16>(from, to);
      return absl::OkStatus();
    case CAPSTAN_BFLOAT16:
      Widen<Bfloat16>(from, to);
      return absl::OkStatus();
  }
  return UnknownType(dtype);
}

absl::Status FromFloats(absl::Span<const float> from, int32_t dtype, void* to) {
  if (to == nullptr) return absl::InvalidArgumentError("expected memory for numbers, got NULL");
  switch (dtype) {
    case CAPSTAN_FLOAT32:
      std::memcpy(to, from.data(), from.size() * sizeof(float));
      return absl::OkStatus();
    case CAPSTAN_FLOAT16: {
      auto* numbers = static_cast<Float16*>(to);
      for (const float value : from) *numbers++ = ToFloat16(value);
      return absl::OkStatus();
    }
    case CAPSTAN_BFLOAT16: {
      auto* numbers = static_cast<Bfloat16*>(to);
      for (const float value : from) *numbers++ = ToBfloat16(value);
      return absl::OkStatus();
    }
  }
  return UnknownType(dtype);
}

}  // namespace capstan
