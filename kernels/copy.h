#ifndef KERNELS_COPY_H_
#define KERNELS_COPY_H_

#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

// target[i] = source[i], within the memory of the stream's device.
absl::Status Copy(int64_t n, const float* source, float* target, CpuStream& stream);
absl::Status Copy(int64_t n, const float* source, float* target, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_COPY_H_
