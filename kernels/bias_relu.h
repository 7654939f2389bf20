#ifndef KERNELS_BIAS_RELU_H_
#define KERNELS_BIAS_RELU_H_

#include <cstdint>

namespace capstan {

// What follows the bias in a layer.
enum class Activation { kNone, kRelu };

// values[row, column] = activation(values[row, column] + bias[column]), in place; `values` is
// row-major [rows, columns]. NaN stays NaN.
void AddBias(int64_t rows, int64_t columns, Activation activation, const float* bias,
             float* values);

// The way back through AddBias. `gradient` [rows, columns] is the gradient of AddBias's result on
// entry, of its input on return: kRelu sets it to 0 where the result in `outputs` [rows, columns]
// is not above 0; kNone leaves it, and `outputs` is not read. bias_gradient[column] becomes the sum
// of the column, added from row 0 on. The three arrays do not overlap.
void AddBiasBackward(int64_t rows, int64_t columns, Activation activation, const float* outputs,
                     float* gradient, float* bias_gradient);

}  // namespace capstan

#endif  // KERNELS_BIAS_RELU_H_
