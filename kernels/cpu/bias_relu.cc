#include "kernels/bias_relu.h"

#include <algorithm>

namespace capstan {
namespace {

void AddBiasToRow(int64_t columns, const float* __restrict bias, float* __restrict row) {
  for (int64_t i = 0; i < columns; ++i) row[i] += bias[i];
}

void AddBiasToRowRelu(int64_t columns, const float* __restrict bias, float* __restrict row) {
  for (int64_t i = 0; i < columns; ++i) {
    const float sum = row[i] + bias[i];
    row[i] = sum < 0.0f ? 0.0f : sum;
  }
}

void SumRow(int64_t columns, const float* __restrict row, float* __restrict sum) {
  for (int64_t i = 0; i < columns; ++i) sum[i] += row[i];
}

void SumRowRelu(int64_t columns, const float* __restrict output, float* __restrict row,
                float* __restrict sum) {
  for (int64_t i = 0; i < columns; ++i) {
    const float gradient = row[i];
    row[i] = output[i] > 0.0f ? gradient : 0.0f;
    sum[i] += row[i];
  }
}

}  // namespace

absl::Status AddBias(int64_t rows, int64_t columns, Activation activation, const float* bias,
                     float* values, CpuStream& /*stream*/) {
  for (int64_t row = 0; row < rows; ++row, values += columns) {
    switch (activation) {
      case Activation::kNone:
        AddBiasToRow(columns, bias, values);
        break;
      case Activation::kRelu:
        AddBiasToRowRelu(columns, bias, values);
        break;
    }
  }
  return absl::OkStatus();
}

size_t AddBiasBackwardScratchBytes(int64_t /*rows*/, int64_t /*columns*/,
                                   const CpuStream& /*stream*/) {
  return 0;
}

absl::Status AddBiasBackward(int64_t rows, int64_t columns, Activation activation,
                             const float* outputs, float* gradient, float* bias_gradient,
                             void* /*scratch*/, CpuStream& /*stream*/) {
  std::fill_n(bias_gradient, columns, 0.0f);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t offset = row * columns;
    switch (activation) {
      case Activation::kNone:
        SumRow(columns, gradient + offset, bias_gradient);
        break;
      case Activation::kRelu:
        SumRowRelu(columns, outputs + offset, gradient + offset, bias_gradient);
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace capstan
