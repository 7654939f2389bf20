#ifndef COMMON_CODEC_DRAWS_H_
#define COMMON_CODEC_DRAWS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/codec/codec.h"

namespace capstan {

// The 16-bit draws of a slice's stochastic rounding. README.md has the generator.
struct SliceDraws {
  // Elements that share a block of Philox.
  static constexpr size_t kPerBlock = 8;

  explicit SliceDraws(const DrawKey& key);

  // The counter of the block of elements 8 `block` ... 8 `block` + 7.
  std::array<uint32_t, 4> Counter(uint32_t block) const {
    return {block, slice, step_low, step_high};
  }

  std::array<uint32_t, 2> philox_key;
  uint32_t slice;
  uint32_t step_low;
  uint32_t step_high;
};

}  // namespace capstan

#endif  // COMMON_CODEC_DRAWS_H_
