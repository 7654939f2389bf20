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

  // The counter of a block of the table.
  std::array<uint32_t, 4> Counter(uint64_t block) const {
    return {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), step_low, step_high};
  }
  // The block of the slice's elements `begin` ... `begin` + 7. `begin` is a multiple of 8.
  uint64_t BlockAt(size_t begin) const { return first_block + begin / kPerBlock; }

  std::array<uint32_t, 2> philox_key;
  uint64_t first_block;  // of the slice
  uint32_t step_low;
  uint32_t step_high;
};

}  // namespace capstan

#endif  // COMMON_CODEC_DRAWS_H_
