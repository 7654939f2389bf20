#ifndef KERNELS_ARRAYS_H_
#define KERNELS_ARRAYS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/bfloat16.h"

// Operations to fill an array from a number or from another array.
namespace capstan {

class CpuStream;
class CudaStream;

// values[i] = value, bit by bit.
absl::Status Fill(int64_t n, float value, float* values, CpuStream& stream);
absl::Status Fill(int64_t n, float value, float* values, CudaStream& stream);

// target[i] = source[i], within the memory of the stream's device.
absl::Status Copy(int64_t n, const float* source, float* target, CpuStream& stream);
absl::Status Copy(int64_t n, const float* source, float* target, CudaStream& stream);

// target[i] = source[i], rounded to the nearest bfloat16, to even between two; NaN stays NaN.
absl::Status ConvertToBfloat16(int64_t n, const float* source, Bfloat16* target, CpuStream& stream);
absl::Status ConvertToBfloat16(int64_t n, const float* source, Bfloat16* target,
                               CudaStream& stream);

// target[i] = source[i], exactly.
absl::Status ConvertToFloat32(int64_t n, const Bfloat16* source, float* target, CpuStream& stream);
absl::Status ConvertToFloat32(int64_t n, const Bfloat16* source, float* target, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_ARRAYS_H_
