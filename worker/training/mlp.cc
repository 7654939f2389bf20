#include "worker/training/mlp.h"

#include <glog/logging.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "kernels/bias_relu.h"
#include "kernels/gemm.h"
#include "kernels/softmax_cross_entropy.h"

namespace capstan {
namespace {

constexpr int kTablesPerLayer = 2;

int WeightTable(int layer) { return kTablesPerLayer * layer; }
int BiasTable(int layer) { return kTablesPerLayer * layer + 1; }

template <typename Array>
void CheckSizes(const std::vector<v1::TableSpec>& tables, absl::Span<const Array> arrays) {
  CHECK_EQ(arrays.size(), tables.size());
  for (size_t i = 0; i < tables.size(); ++i) {
    uint64_t elements = 1;
    for (const uint64_t size : tables[i].shape()) elements *= size;
    CHECK_EQ(arrays[i].size(), elements) << tables[i].name();
  }
}

}  // namespace

Mlp::Mlp(std::vector<int64_t> widths) : widths_(std::move(widths)) {
  CHECK_GE(widths_.size(), 2u);
  for (const int64_t width : widths_) CHECK_GE(width, 1);
  layers_.resize(widths_.size() - 1);
  for (int layer = 0; layer < layer_count(); ++layer) {
    layers_[layer].name = layers_.size() == 1 ? "linear" : absl::StrCat("fc", layer + 1);
    const int64_t inputs = widths_[layer], outputs = widths_[layer + 1];
    // He et al., "Delving Deep into Rectifiers", ICCV 2015, equation 10: ReLU halves the variance.
    const double gain = IsLast(layer) ? 1.0 : 2.0;
    AddTable(layer, "weight", {inputs, outputs}, std::sqrt(gain / static_cast<double>(inputs)));
    AddTable(layer, "bias", {outputs}, /*initial_stddev=*/0);
  }
  outputs_.resize(layers_.size());
  output_gradients_.resize(layers_.size());
}

void Mlp::AddTable(int layer, const char* suffix, const std::vector<int64_t>& shape,
                   double initial_stddev) {
  layers_[layer].tables.push_back(static_cast<int>(tables_.size()));
  v1::TableSpec& table = tables_.emplace_back();
  table.set_name(absl::StrCat(layers_[layer].name, ".", suffix));
  for (const int64_t size : shape) table.add_shape(static_cast<uint64_t>(size));
  table.set_initial_stddev(initial_stddev);
  table.set_layer(static_cast<uint32_t>(layer));
}

absl::Status Mlp::CheckBatch(const Batch& batch) const {
  const size_t features = static_cast<size_t>(widths_.front());
  if (batch.features.size() != batch.labels.size() * features) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch: expected ", features, " features for each of ", batch.labels.size(),
                     " labels, got ", batch.features.size(), " in all; check the data's format"));
  }
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] >= 0 && batch.labels[i] < widths_.back()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: expected labels from 0 to ", widths_.back() - 1, ", got ", batch.labels[i],
        " for sample ", i, "; check the data, and the job's number of classes"));
  }
  return absl::OkStatus();
}

void Mlp::Reserve(int64_t samples) {
  if (samples <= reserved_samples_) return;
  for (int layer = 0; layer < layer_count(); ++layer) {
    outputs_[layer] = HostBuffer(static_cast<size_t>(samples * widths_[layer + 1]));
    output_gradients_[layer] = HostBuffer(static_cast<size_t>(samples * widths_[layer + 1]));
  }
  reserved_samples_ = samples;
}

const float* Mlp::Inputs(int layer, const Batch& batch) const {
  return layer == 0 ? batch.features.data() : outputs_[layer - 1].data();
}

absl::StatusOr<BatchResult> Mlp::Forward(
    const Batch& batch, absl::Span<const absl::Span<const float>> parameters,
    absl::FunctionRef<absl::Status(int layer)> wait_for_layer) {
  CheckSizes(tables_, parameters);
  RETURN_IF_ERROR(CheckBatch(batch));
  const int64_t samples = static_cast<int64_t>(batch.labels.size());
  Reserve(samples);
  samples_ = samples;
  for (int layer = 0; layer < layer_count(); ++layer) {
    RETURN_IF_ERROR(wait_for_layer(layer));
    const int64_t inputs = widths_[layer], outputs = widths_[layer + 1];
    Gemm({/*m=*/samples, /*n=*/outputs, /*k=*/inputs}, /*alpha=*/1.0f, Inputs(layer, batch),
         parameters[WeightTable(layer)].data(), /*beta=*/0.0f, outputs_[layer].data());
    AddBias(samples, outputs, IsLast(layer) ? Activation::kNone : Activation::kRelu,
            parameters[BiasTable(layer)].data(), outputs_[layer].data());
  }
  SoftmaxCrossEntropyResult result;
  SoftmaxCrossEntropy(samples, /*classes=*/widths_.back(), outputs_.back().data(),
                      batch.labels.data(), output_gradients_.back().data(), &result);
  return BatchResult{result.loss_sum, result.correct};
}

void Mlp::Backward(const Batch& batch, absl::Span<const absl::Span<const float>> parameters,
                   absl::Span<const absl::Span<float>> gradients,
                   absl::FunctionRef<void(int layer)> gradient_ready) {
  CheckSizes(tables_, parameters);
  CheckSizes(tables_, gradients);
  CHECK_EQ(static_cast<int64_t>(batch.labels.size()), samples_);
  for (int layer = layer_count() - 1; layer >= 0; --layer) {
    const int64_t inputs = widths_[layer], outputs = widths_[layer + 1];
    float* output_gradient = output_gradients_[layer].data();
    AddBiasBackward(samples_, outputs, IsLast(layer) ? Activation::kNone : Activation::kRelu,
                    outputs_[layer].data(), output_gradient, gradients[BiasTable(layer)].data());
    Gemm({/*m=*/inputs, /*n=*/outputs, /*k=*/samples_, /*is_a_transposed=*/true}, /*alpha=*/1.0f,
         Inputs(layer, batch), output_gradient, /*beta=*/0.0f,
         gradients[WeightTable(layer)].data());
    if (layer > 0) {
      // Before gradient_ready, which lets the reply overwrite the weights.
      Gemm({/*m=*/samples_, /*n=*/inputs, /*k=*/outputs, /*is_a_transposed=*/false,
            /*is_b_transposed=*/true},
           /*alpha=*/1.0f, output_gradient, parameters[WeightTable(layer)].data(), /*beta=*/0.0f,
           output_gradients_[layer - 1].data());
    }
    gradient_ready(layer);
  }
}

}  // namespace capstan
