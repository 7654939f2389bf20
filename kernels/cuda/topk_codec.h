#ifndef KERNELS_CUDA_TOPK_CODEC_H_
#define KERNELS_CUDA_TOPK_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/slice_encoding.h"
#include "kernels/norm.h"

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

// What deep gradient compression does besides: Lin et al., "Deep Gradient Compression", ICLR'18,
// sections 3.1 and 3.2.

// momentum[i] = factor * momentum[i] + c * gradient[i], for `n` elements, each operation rounded to
// float32. c is 1. But if `norm` is not null and its norm exceeds `most`, c is most / norm.
absl::Status AddMomentum(int64_t n, float factor, const NormResult* norm, double most,
                         const float* gradient, float* momentum, CudaStream& stream);

// Sets the elements to 0 whose indices are the first `k` words of `bytes`, those of a topk.
absl::Status ZeroSent(int64_t k, const uint8_t* bytes, float* elements, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_TOPK_CODEC_H_
