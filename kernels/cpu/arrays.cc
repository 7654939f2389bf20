#include "kernels/arrays.h"

#include <algorithm>

namespace capstan {

absl::Status Fill(int64_t n, float value, float* values, CpuStream& /*stream*/) {
  std::fill_n(values, n, value);
  return absl::OkStatus();
}

absl::Status Copy(int64_t n, const float* source, float* target, CpuStream& /*stream*/) {
  std::copy_n(source, n, target);
  return absl::OkStatus();
}

absl::Status ConvertToBfloat16(int64_t n, const float* __restrict source,
                               Bfloat16* __restrict target, CpuStream& /*stream*/) {
  for (int64_t i = 0; i < n; ++i) target[i] = ToBfloat16(source[i]);
  return absl::OkStatus();
}

absl::Status ConvertToFloat32(int64_t n, const Bfloat16* __restrict source,
                              float* __restrict target, CpuStream& /*stream*/) {
  for (int64_t i = 0; i < n; ++i) target[i] = ToFloat32(source[i]);
  return absl::OkStatus();
}

}  // namespace capstan
