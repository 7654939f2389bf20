#ifndef KERNELS_CUDA_INT8_CODEC_H_
#define KERNELS_CUDA_INT8_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/slice_encoding.h"

// The codec "int8" of common/codec.
namespace capstan {

size_t EncodeInt8ScratchBytes(int64_t n);

// Writes n bytes, and 4 for each 256 values or a part of them. If a value + residual is not finite,
// the new residual is undefined: one pass over the values writes it and finds them.
absl::Status EncodeInt8(const SliceToEncode& slice, const EncodeDraws& draws, CudaStream& stream);

// Decode `n` values; `bytes` are aligned to 4.
absl::Status DecodeInt8(int64_t n, const uint8_t* bytes, float* values, CudaStream& stream);
// sum[i] += decoded value.
absl::Status DecodeAddInt8(int64_t n, const uint8_t* bytes, float* sum, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_INT8_CODEC_H_
