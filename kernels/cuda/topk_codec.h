#ifndef KERNELS_CUDA_TOPK_CODEC_H_
#define KERNELS_CUDA_TOPK_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/slice_encoding.h"

// The codecs "topk:R:VALUES" of common/codec. The caller has computed k: 1 <= k <= n < 2^32, or
// both are 0.
namespace capstan {

enum class TopkValues { kFloat32, kBfloat16, kInt8 };

size_t EncodeTopkScratchBytes(int64_t n, int64_t k, TopkValues type);

// Writes the `k` indices and their values. Only kInt8 uses `draws`. If a value + residual is not
// finite, the residual is unchanged.
absl::Status EncodeTopk(const SliceToEncode& slice, int64_t k, TopkValues type,
                        const EncodeDraws& draws, CudaStream& stream);

// Decode `n` values from bytes aligned to 4. Their indices are below n: check before what a peer
// has sent.
absl::Status DecodeTopk(int64_t n, int64_t k, TopkValues type, const uint8_t* bytes, float* values,
                        CudaStream& stream);
// sum[i] += decoded value, for the `k` elements that were sent. The others keep their bits.
absl::Status DecodeAddTopk(int64_t k, TopkValues type, const uint8_t* bytes, float* sum,
                           CudaStream& stream);

// Decodes CodecType::kChanged: the `count` elements get their new values, and the others keep their
// bits. As DecodeTopk otherwise.
absl::Status ReplaceElements(int64_t count, const uint8_t* bytes, float* values,
                             CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_TOPK_CODEC_H_
