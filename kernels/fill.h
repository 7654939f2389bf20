#ifndef KERNELS_FILL_H_
#define KERNELS_FILL_H_

#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

// values[i] = value, the very bits of it.
absl::Status Fill(int64_t n, float value, float* values, CpuStream& stream);
absl::Status Fill(int64_t n, float value, float* values, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_FILL_H_
