#ifndef KERNELS_BIAS_RELU_H_
#define KERNELS_BIAS_RELU_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

// A layer's function after the bias.
enum class Activation { kNone, kRelu };

// values[row, column] = activation(values[row, column] + bias[column]), in place; `values` is
// row-major [rows, columns]. NaN stays NaN.
absl::Status AddBias(int64_t rows, int64_t columns, Activation activation, const float* bias,
                     float* values, CpuStream& stream);
absl::Status AddBias(int64_t rows, int64_t columns, Activation activation, const float* bias,
                     float* values, CudaStream& stream);

size_t AddBiasBackwardScratchBytes(int64_t rows, int64_t columns, const CpuStream& stream);
size_t AddBiasBackwardScratchBytes(int64_t rows, int64_t columns, const CudaStream& stream);

// The way back through AddBias. `gradient` [rows, columns] is the gradient of AddBias's result on
// entry, and of its input on return. kRelu sets it to 0 if the result in `outputs` [rows, columns]
// is not above 0. kNone leaves it and does not read `outputs`. bias_gradient[column] becomes the
// sum of the column. The CPU adds from row 0 on; a GPU's order depends on the sizes only. The
// arrays do not overlap.
absl::Status AddBiasBackward(int64_t rows, int64_t columns, Activation activation,
                             const float* outputs, float* gradient, float* bias_gradient,
                             void* scratch, CpuStream& stream);
absl::Status AddBiasBackward(int64_t rows, int64_t columns, Activation activation,
                             const float* outputs, float* gradient, float* bias_gradient,
                             void* scratch, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_BIAS_RELU_H_
