#ifndef KERNELS_CUDA_PHILOX_H_
#define KERNELS_CUDA_PHILOX_H_

#include <cuda_runtime.h>

#include <cstdint>

// For .cu.cc files only.
namespace capstan {

struct PhiloxBlock {
  uint32_t words[4];
};

// Philox4x32-10, the twin of Philox4x32() for GPUs.
__device__ inline PhiloxBlock Philox(PhiloxBlock counter, uint32_t key_low, uint32_t key_high) {
  constexpr int kRounds = 10;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter.words[0];
    const uint64_t second = uint64_t{0xCD9E8D57} * counter.words[2];
    counter = {{static_cast<uint32_t>(second >> 32) ^ counter.words[1] ^ key_low,
                static_cast<uint32_t>(second),
                static_cast<uint32_t>(first >> 32) ^ counter.words[3] ^ key_high,
                static_cast<uint32_t>(first)}};
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  return counter;
}

}  // namespace capstan

#endif  // KERNELS_CUDA_PHILOX_H_
