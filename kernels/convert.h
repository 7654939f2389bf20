#ifndef KERNELS_CONVERT_H_
#define KERNELS_CONVERT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/bfloat16.h"

namespace capstan {

class CpuStream;
class CudaStream;

// target[i] = source[i], rounded to the nearest bfloat16, to even between two; NaN stays NaN.
absl::Status ConvertToBfloat16(int64_t n, const float* source, Bfloat16* target, CpuStream& stream);
absl::Status ConvertToBfloat16(int64_t n, const float* source, Bfloat16* target,
                               CudaStream& stream);

// target[i] = source[i], exactly.
absl::Status ConvertToFloat32(int64_t n, const Bfloat16* source, float* target, CpuStream& stream);
absl::Status ConvertToFloat32(int64_t n, const Bfloat16* source, float* target, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CONVERT_H_
