#include "worker/models/sparse_training/dense_layers.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "kernels/gemm.h"

namespace capstan {

DenseLayers::DenseLayers(std::vector<int64_t> widths) : widths_(std::move(widths)) {
  CHECK_GE(widths_.size(), 1u);
  for (const int64_t width : widths_) CHECK_GE(width, 1);
  widths_.push_back(1);
  layers_.resize(widths_.size() - 1);
}

absl::Span<float> DenseLayers::PrepareInputs(int64_t samples) {
  samples_ = samples;
  inputs_.resize(samples * inputs(0));
  input_gradient_.resize(inputs_.size());
  size_t scratch_bytes = 0;
  for (int layer = 0; layer < layer_count(); ++layer) {
    layers_[layer].outputs.resize(samples * outputs(layer));
    layers_[layer].output_gradient.resize(samples * outputs(layer));
    scratch_bytes =
        std::max(scratch_bytes, AddBiasBackwardScratchBytes(samples, outputs(layer), stream_));
  }
  scratch_.resize(scratch_bytes);
  return absl::MakeSpan(inputs_);
}

absl::Status DenseLayers::Forward(int layer, absl::Span<const float> weight,
                                  absl::Span<const float> bias) {
  CHECK_EQ(static_cast<int64_t>(weight.size()), inputs(layer) * outputs(layer));
  CHECK_EQ(static_cast<int64_t>(bias.size()), outputs(layer));
  float* const values = layers_[layer].outputs.data();
  const GemmShape shape = {/*m=*/samples_, /*n=*/outputs(layer), /*k=*/inputs(layer)};
  RETURN_IF_ERROR(Gemm(shape, MatrixPrecision::kFloat32, /*alpha=*/1.0f, InputsOf(layer).data(),
                       weight.data(), /*beta=*/0.0f, values, stream_));
  return AddBias(samples_, outputs(layer), ActivationOf(layer), bias.data(), values, stream_);
}

void DenseLayers::SetResultGradient(absl::Span<const float> gradient) {
  layers_.back().output_gradient.assign(gradient.begin(), gradient.end());
}

absl::Status DenseLayers::Backward(int layer, absl::Span<const float> weight,
                                   absl::Span<float> weight_gradient,
                                   absl::Span<float> bias_gradient) {
  float* const gradient = layers_[layer].output_gradient.data();
  RETURN_IF_ERROR(AddBiasBackward(samples_, outputs(layer), ActivationOf(layer),
                                  layers_[layer].outputs.data(), gradient, bias_gradient.data(),
                                  scratch_.data(), stream_));
  RETURN_IF_ERROR(Gemm({/*m=*/inputs(layer), /*n=*/outputs(layer), /*k=*/samples_,
                        /*is_a_transposed=*/true},
                       MatrixPrecision::kFloat32, /*alpha=*/1.0f, InputsOf(layer).data(), gradient,
                       /*beta=*/0.0f, weight_gradient.data(), stream_));
  std::vector<float>& below = layer == 0 ? input_gradient_ : layers_[layer - 1].output_gradient;
  return Gemm({/*m=*/samples_, /*n=*/inputs(layer), /*k=*/outputs(layer),
               /*is_a_transposed=*/false, /*is_b_transposed=*/true},
              MatrixPrecision::kFloat32, /*alpha=*/1.0f, gradient, weight.data(), /*beta=*/0.0f,
              below.data(), stream_);
}

}  // namespace capstan
