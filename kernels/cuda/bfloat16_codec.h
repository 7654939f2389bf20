#ifndef KERNELS_CUDA_BFLOAT16_CODEC_H_
#define KERNELS_CUDA_BFLOAT16_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/slice_encoding.h"

// The codec "bfloat16" of common/codec.
namespace capstan {

size_t EncodeBfloat16ScratchBytes(int64_t n);

// Writes 2 n bytes. If a value + residual is not finite, the new residual is undefined: one pass
// over the values writes it and finds them.
absl::Status EncodeBfloat16(const SliceToEncode& slice, CudaStream& stream);

// Decode `n` values; `bytes` are aligned to 16.
absl::Status DecodeBfloat16(int64_t n, const uint8_t* bytes, float* values, CudaStream& stream);
// sum[i] += decoded value.
absl::Status DecodeAddBfloat16(int64_t n, const uint8_t* bytes, float* sum, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_BFLOAT16_CODEC_H_
