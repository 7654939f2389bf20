#ifndef COMMON_CODEC_ERROR_FEEDBACK_H_
#define COMMON_CODEC_ERROR_FEEDBACK_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"

namespace capstan {

// Encodes the sums of the elements from `begin` on, and decodes them again. `begin` is a multiple
// of Codec::kDecodeAlignment.
using EncodeSums =
    absl::FunctionRef<void(size_t begin, absl::Span<const float> sums, absl::Span<float> decoded)>;

// Encodes values + residual in pieces, and makes the residual what the bytes lack. INVALID_ARGUMENT
// if one of these sums is a NaN or an infinity; then nothing was encoded, and the residual is as it
// was.
absl::StatusOr<Codec::Norms> EncodeWithResidual(absl::Span<const float> values,
                                                absl::Span<float> residual, EncodeSums encode);

}  // namespace capstan

#endif  // COMMON_CODEC_ERROR_FEEDBACK_H_
