#ifndef WORKER_MODELS_TRAINING_MLP_DEFINITION_H_
#define WORKER_MODELS_TRAINING_MLP_DEFINITION_H_

// The member functions of Mlp. Included by mlp_cpu.cc and mlp_cuda.cc alone, one for each stream.

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "kernels/arrays.h"
#include "kernels/bias_relu.h"
#include "kernels/gemm.h"
#include "kernels/softmax_cross_entropy.h"
#include "worker/models/training/mlp.h"

namespace capstan {
namespace mlp_internal {

constexpr int kTablesPerLayer = 2;

inline int WeightTable(int layer) { return kTablesPerLayer * layer; }
inline int BiasTable(int layer) { return kTablesPerLayer * layer + 1; }

inline MatrixPrecision ProductPrecision(Precision precision) {
  return precision == Precision::kTf32 ? MatrixPrecision::kTf32 : MatrixPrecision::kFloat32;
}

template <typename Array>
void CheckSizes(const std::vector<v1::TableSpec>& tables, absl::Span<const Array> arrays) {
  CHECK_EQ(arrays.size(), tables.size());
  for (size_t i = 0; i < tables.size(); ++i) {
    uint64_t elements = 1;
    for (const uint64_t size : tables[i].shape()) elements *= size;
    CHECK_EQ(arrays[i].size(), elements) << tables[i].name();
  }
}

}  // namespace mlp_internal

template <typename Stream>
Mlp<Stream>::Mlp(std::vector<int64_t> widths, Precision precision)
    : widths_(std::move(widths)), precision_(precision) {
  CHECK_GE(widths_.size(), 2u);
  for (const int64_t width : widths_) CHECK_GE(width, 1);
  layers_.resize(widths_.size() - 1);
  for (int layer = 0; layer < layer_count(); ++layer) {
    layers_[layer].name = layers_.size() == 1 ? "linear" : absl::StrCat("fc", layer + 1);
    // He et al., "Delving Deep into Rectifiers", ICCV 2015, equation 10: ReLU halves the variance.
    const double gain = IsLast(layer) ? 1.0 : 2.0;
    AddTable(layer, "weight", {inputs(layer), outputs(layer)},
             std::sqrt(gain / static_cast<double>(inputs(layer))));
    AddTable(layer, "bias", {outputs(layer)}, /*initial_stddev=*/0);
  }
}

template <typename Stream>
void Mlp<Stream>::AddTable(int layer, const char* suffix, const std::vector<int64_t>& shape,
                           double initial_stddev) {
  layers_[layer].tables.push_back(static_cast<int>(tables_.size()));
  v1::TableSpec& table = tables_.emplace_back();
  table.set_name(absl::StrCat(layers_[layer].name, ".", suffix));
  for (const int64_t size : shape) table.add_shape(static_cast<uint64_t>(size));
  table.set_initial_stddev(initial_stddev);
  table.set_layer(static_cast<uint32_t>(layer));
}

template <typename Stream>
typename Mlp<Stream>::Workspace Mlp<Stream>::Cut(MemoryCutter& cutter, int64_t max_samples,
                                                 const Stream& stream) const {
  const bool is_rounded = precision_ == Precision::kBfloat16;
  Workspace workspace;
  int64_t widest = 0;
  size_t scratch_bytes = SoftmaxCrossEntropyScratchBytes(max_samples, widths_.back(), stream);
  for (int layer = 0; layer < layer_count(); ++layer) {
    Activations& activations = workspace.layers.emplace_back();
    activations.outputs = cutter.Take<float>(max_samples * outputs(layer));
    activations.output_gradient = cutter.Take<float>(max_samples * outputs(layer));
    if (is_rounded) {
      activations.rounded_inputs = cutter.Take<Bfloat16>(max_samples * inputs(layer));
      activations.rounded_weights = cutter.Take<Bfloat16>(inputs(layer) * outputs(layer));
    }
    widest = std::max(widest, outputs(layer));
    scratch_bytes =
        std::max(scratch_bytes, AddBiasBackwardScratchBytes(max_samples, outputs(layer), stream));
  }
  if (is_rounded) workspace.rounded_gradient = cutter.Take<Bfloat16>(max_samples * widest);
  workspace.scratch = cutter.Take<char>(static_cast<int64_t>(scratch_bytes));
  return workspace;
}

template <typename Stream>
size_t Mlp<Stream>::WorkspaceBytes(int64_t max_samples, const Stream& stream) const {
  MemoryCutter cutter(/*memory=*/nullptr);
  Cut(cutter, max_samples, stream);
  return cutter.used_bytes();
}

template <typename Stream>
void Mlp<Stream>::UseWorkspace(void* workspace, int64_t max_samples, const Stream& stream) {
  MemoryCutter cutter(workspace);
  workspace_ = Cut(cutter, max_samples, stream);
  max_samples_ = max_samples;
}

template <typename Stream>
const float* Mlp<Stream>::Inputs(int layer, const Batch& batch) const {
  return layer == 0 ? batch.features.data() : workspace_.layers[layer - 1].outputs;
}

template <typename Stream>
absl::Status Mlp<Stream>::Forward(const Batch& batch, Parameters parameters,
                                  absl::FunctionRef<absl::Status(int layer)> wait_for_layer,
                                  BatchResult* result, Stream& stream) {
  mlp_internal::CheckSizes(tables_, parameters);
  samples_ = static_cast<int64_t>(batch.labels.size());
  CHECK_LE(samples_, max_samples_);
  CHECK_EQ(static_cast<int64_t>(batch.features.size()), samples_ * widths_.front());
  for (int layer = 0; layer < layer_count(); ++layer) {
    RETURN_IF_ERROR(wait_for_layer(layer));
    RETURN_IF_ERROR(ForwardProduct(layer, Inputs(layer, batch),
                                   parameters[mlp_internal::WeightTable(layer)].data(), stream));
    RETURN_IF_ERROR(AddBias(samples_, outputs(layer),
                            IsLast(layer) ? Activation::kNone : Activation::kRelu,
                            parameters[mlp_internal::BiasTable(layer)].data(),
                            workspace_.layers[layer].outputs, stream));
  }
  const Activations& last = workspace_.layers.back();
  return SoftmaxCrossEntropy(samples_, /*classes=*/widths_.back(), last.outputs,
                             batch.labels.data(), last.output_gradient, result, workspace_.scratch,
                             stream);
}

template <typename Stream>
absl::Status Mlp<Stream>::Backward(const Batch& batch, Parameters parameters, Gradients gradients,
                                   absl::FunctionRef<absl::Status(int layer)> gradient_ready,
                                   Stream& stream) {
  mlp_internal::CheckSizes(tables_, parameters);
  mlp_internal::CheckSizes(tables_, gradients);
  CHECK_EQ(static_cast<int64_t>(batch.labels.size()), samples_);
  for (int layer = layer_count() - 1; layer >= 0; --layer) {
    const int weight = mlp_internal::WeightTable(layer);
    const Activations& activations = workspace_.layers[layer];
    RETURN_IF_ERROR(AddBiasBackward(
        samples_, outputs(layer), IsLast(layer) ? Activation::kNone : Activation::kRelu,
        activations.outputs, activations.output_gradient,
        gradients[mlp_internal::BiasTable(layer)].data(), workspace_.scratch, stream));
    // Both products read the weights. After gradient_ready, a reply may overwrite them.
    RETURN_IF_ERROR(BackwardProducts(layer, Inputs(layer, batch), parameters[weight].data(),
                                     gradients[weight].data(), stream));
    RETURN_IF_ERROR(gradient_ready(layer));
  }
  return absl::OkStatus();
}

template <typename Stream>
absl::Status Mlp<Stream>::ForwardProduct(int layer, const float* layer_inputs, const float* weights,
                                         Stream& stream) {
  const Activations& activations = workspace_.layers[layer];
  const GemmShape shape = {/*m=*/samples_, /*n=*/outputs(layer), /*k=*/inputs(layer)};
  if (precision_ != Precision::kBfloat16) {
    return Gemm(shape, mlp_internal::ProductPrecision(precision_), /*alpha=*/1.0f, layer_inputs,
                weights, /*beta=*/0.0f, activations.outputs, stream);
  }
  RETURN_IF_ERROR(ConvertToBfloat16(samples_ * inputs(layer), layer_inputs,
                                    activations.rounded_inputs, stream));
  RETURN_IF_ERROR(ConvertToBfloat16(inputs(layer) * outputs(layer), weights,
                                    activations.rounded_weights, stream));
  return Gemm(shape, /*alpha=*/1.0f, activations.rounded_inputs, activations.rounded_weights,
              /*beta=*/0.0f, activations.outputs, stream);
}

template <typename Stream>
absl::Status Mlp<Stream>::BackwardProducts(int layer, const float* layer_inputs,
                                           const float* weights, float* weight_gradient,
                                           Stream& stream) {
  if (precision_ == Precision::kBfloat16) {
    return RoundedBackwardProducts(layer, weight_gradient, stream);
  }
  const MatrixPrecision precision = mlp_internal::ProductPrecision(precision_);
  const float* output_gradient = workspace_.layers[layer].output_gradient;
  RETURN_IF_ERROR(Gemm({/*m=*/inputs(layer), /*n=*/outputs(layer), /*k=*/samples_,
                        /*is_a_transposed=*/true},
                       precision, /*alpha=*/1.0f, layer_inputs, output_gradient, /*beta=*/0.0f,
                       weight_gradient, stream));
  if (layer == 0) return absl::OkStatus();
  return Gemm({/*m=*/samples_, /*n=*/inputs(layer), /*k=*/outputs(layer),
               /*is_a_transposed=*/false, /*is_b_transposed=*/true},
              precision, /*alpha=*/1.0f, output_gradient, weights, /*beta=*/0.0f,
              workspace_.layers[layer - 1].output_gradient, stream);
}

template <typename Stream>
absl::Status Mlp<Stream>::RoundedBackwardProducts(int layer, float* weight_gradient,
                                                  Stream& stream) {
  const Activations& activations = workspace_.layers[layer];
  const Bfloat16* gradient = workspace_.rounded_gradient;
  RETURN_IF_ERROR(ConvertToBfloat16(samples_ * outputs(layer), activations.output_gradient,
                                    workspace_.rounded_gradient, stream));
  RETURN_IF_ERROR(Gemm({/*m=*/inputs(layer), /*n=*/outputs(layer), /*k=*/samples_,
                        /*is_a_transposed=*/true},
                       /*alpha=*/1.0f, activations.rounded_inputs, gradient, /*beta=*/0.0f,
                       weight_gradient, stream));
  if (layer == 0) return absl::OkStatus();
  return Gemm({/*m=*/samples_, /*n=*/inputs(layer), /*k=*/outputs(layer),
               /*is_a_transposed=*/false, /*is_b_transposed=*/true},
              /*alpha=*/1.0f, gradient, activations.rounded_weights, /*beta=*/0.0f,
              workspace_.layers[layer - 1].output_gradient, stream);
}

}  // namespace capstan

#endif  // WORKER_MODELS_TRAINING_MLP_DEFINITION_H_
