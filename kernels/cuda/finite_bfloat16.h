#ifndef KERNELS_CUDA_FINITE_BFLOAT16_H_
#define KERNELS_CUDA_FINITE_BFLOAT16_H_

#include <cstdint>

#include "common/tensor/bfloat16.h"
#include "common/tensor/host_device.h"

namespace capstan {

// The nearest bfloat16 that is finite, for a finite value; of two, the even one.
CAPSTAN_HOST_DEVICE inline Bfloat16 ToFiniteBfloat16(float value) {
  constexpr uint16_t kSign = 0x8000;
  constexpr uint16_t kInfinity = 0x7f80;
  Bfloat16 nearest = ToBfloat16(value);
  if ((nearest.bits & ~kSign & 0xffff) == kInfinity) --nearest.bits;
  return nearest;
}

}  // namespace capstan

#endif  // KERNELS_CUDA_FINITE_BFLOAT16_H_
