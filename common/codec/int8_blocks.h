#ifndef COMMON_CODEC_INT8_BLOCKS_H_
#define COMMON_CODEC_INT8_BLOCKS_H_

#include <cstddef>
#include <cstdint>

#include "common/codec/draws.h"

// The blocks of codec int8, in vectors. README.md has their bytes.
namespace capstan {

// Values of a block; the last one of a slice can have fewer.
inline constexpr size_t kInt8Block = 256;
inline constexpr size_t kInt8ScaleBytes = sizeof(float);
inline constexpr size_t kInt8BlockBytes = kInt8ScaleBytes + kInt8Block;
// The bits of the largest scale whose product with 127 is finite.
inline constexpr uint32_t kLargestInt8Scale = 0x7c010203;

// Encodes `n` values of the slice from element `begin` on, a multiple of kInt8Block, to `bytes`.
// False if one of them is a NaN or an infinity; the bytes are then undefined.
bool EncodeInt8Blocks(const float* values, size_t n, size_t begin, const SliceDraws& draws,
                      uint8_t* bytes);

// Decodes `n` values from the beginning of a block on.
void DecodeInt8Blocks(const uint8_t* bytes, size_t n, float* values);
// sum[i] += decoded value.
void DecodeAddInt8Blocks(const uint8_t* bytes, size_t n, float* sum);

}  // namespace capstan

#endif  // COMMON_CODEC_INT8_BLOCKS_H_
