#ifndef COMMON_TENSOR_BFLOAT16_H_
#define COMMON_TENSOR_BFLOAT16_H_

#include <cstdint>
#include <cstring>

#include "common/tensor/host_device.h"

namespace capstan {

// The upper half of a float32: sign, 8 bits of exponent, 7 bits of mantissa.
struct Bfloat16 {
  uint16_t bits = 0;
};

// The nearest bfloat16; of two, the even one. Beyond the largest one it is infinity. NaN becomes a
// quiet NaN with the same sign and the upper bits of the payload.
CAPSTAN_HOST_DEVICE inline Bfloat16 ToBfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  constexpr uint32_t kQuiet = 0x0040;
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return Bfloat16{static_cast<uint16_t>(is_nan ? (bits >> 16) | kQuiet : rounded)};
}

// Exact.
CAPSTAN_HOST_DEVICE inline float ToFloat32(Bfloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

}  // namespace capstan

#endif  // COMMON_TENSOR_BFLOAT16_H_
