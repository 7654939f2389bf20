#include <cuda_runtime.h>

#include "common/base/status_macros.h"
#include "common/tensor/bfloat16.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/int8_block.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/topk_codec.h"

namespace capstan {
namespace {

constexpr char kOperation[] = "top-k decoding";
constexpr int kThreads = kElementwiseThreads;

// Value `i` of the sent ones.
template <TopkValues kType>
__device__ float DecodedValue(const uint8_t* values, int64_t i) {
  if constexpr (kType == TopkValues::kFloat32) {
    return reinterpret_cast<const float*>(values)[i];
  } else if constexpr (kType == TopkValues::kBfloat16) {
    return ToFloat32(reinterpret_cast<const Bfloat16*>(values)[i]);
  } else {
    const uint8_t* const block = values + i / kInt8Block * kInt8BlockBytes;
    const float scale = *reinterpret_cast<const float*>(block);
    return scale * static_cast<int8_t>(block[kInt8ScaleBytes + i % kInt8Block]);
  }
}

// Bytes moved for each sent element: its own, and 4 scattered ones, or 8 to add.
// At most 40 registers.
template <TopkValues kType, bool kAdds>
__global__ void __launch_bounds__(kThreads)
    ScatterKernel(int64_t k, const uint8_t* bytes, float* values) {
  const uint32_t* const indices = reinterpret_cast<const uint32_t*>(bytes);
  const uint8_t* const sent = bytes + k * static_cast<int64_t>(sizeof(uint32_t));
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < k;
       i += int64_t{gridDim.x} * kThreads) {
    const float value = DecodedValue<kType>(sent, i);
    float* const target = &values[indices[i]];
    *target = kAdds ? *target + value : value;
  }
}

template <bool kAdds>
auto ScatterKernelFor(TopkValues type) {
  switch (type) {
    case TopkValues::kFloat32:
      return ScatterKernel<TopkValues::kFloat32, kAdds>;
    case TopkValues::kBfloat16:
      return ScatterKernel<TopkValues::kBfloat16, kAdds>;
    case TopkValues::kInt8:
      break;
  }
  return ScatterKernel<TopkValues::kInt8, kAdds>;
}

template <bool kAdds>
absl::Status Scatter(int64_t k, TopkValues type, const uint8_t* bytes, float* values,
                     CudaStream& stream) {
  return Launch(kOperation, stream, ElementwiseBlocks(k, kThreads, stream), kThreads,
                ScatterKernelFor<kAdds>(type), k, bytes, values);
}

}  // namespace

absl::Status DecodeTopk(int64_t n, int64_t k, TopkValues type, const uint8_t* bytes, float* values,
                        CudaStream& stream) {
  if (n == 0) return absl::OkStatus();
  RETURN_IF_ERROR(stream.SetBytes(0, static_cast<size_t>(n) * sizeof(float), values));
  return Scatter<false>(k, type, bytes, values, stream);
}

absl::Status DecodeAddTopk(int64_t k, TopkValues type, const uint8_t* bytes, float* sum,
                           CudaStream& stream) {
  return Scatter<true>(k, type, bytes, sum, stream);
}

absl::Status ReplaceElements(int64_t count, const uint8_t* bytes, float* values,
                             CudaStream& stream) {
  if (count == 0) return absl::OkStatus();
  return Scatter<false>(count, TopkValues::kFloat32, bytes, values, stream);
}

}  // namespace capstan
