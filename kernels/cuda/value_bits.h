#ifndef KERNELS_CUDA_VALUE_BITS_H_
#define KERNELS_CUDA_VALUE_BITS_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

// For .cu.cc files only.
namespace capstan {

__device__ inline float FloatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// The bits of |value|: integers in the order of the absolute values, above them infinity and NaN.
__device__ inline uint32_t MagnitudeOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7fffffff;
}

}  // namespace capstan

#endif  // KERNELS_CUDA_VALUE_BITS_H_
