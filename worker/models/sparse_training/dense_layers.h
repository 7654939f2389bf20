#ifndef WORKER_MODELS_SPARSE_TRAINING_DENSE_LAYERS_H_
#define WORKER_MODELS_SPARSE_TRAINING_DENSE_LAYERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/bias_relu.h"
#include "kernels/cpu/cpu_stream.h"

namespace capstan {

// Fully connected layers with ReLU between them, and one output. Unlike Mlp, they give the gradient
// of their inputs, and leave the loss to others. Layers are computed one by one, from 0 on. Not
// thread-safe.
class DenseLayers {
 public:
  // The widths of the inputs and of each hidden layer: at least one, and none is 0.
  explicit DenseLayers(std::vector<int64_t> widths);

  int layer_count() const { return static_cast<int>(layers_.size()); }
  int64_t inputs(int layer) const { return widths_[layer]; }
  int64_t outputs(int layer) const { return widths_[layer + 1]; }

  // The inputs of the network, row-major [samples, inputs(0)], for the caller to fill before
  // Forward of layer 0.
  absl::Span<float> PrepareInputs(int64_t samples);
  // `weight` is row-major [inputs(layer), outputs(layer)].
  absl::Status Forward(int layer, absl::Span<const float> weight, absl::Span<const float> bias);
  // One for each sample, after Forward of the last layer.
  absl::Span<const float> result() const { return layers_.back().outputs; }

  // Called before Backward of the last layer, which is the first one.
  void SetResultGradient(absl::Span<const float> gradient);
  absl::Status Backward(int layer, absl::Span<const float> weight,
                        absl::Span<float> weight_gradient, absl::Span<float> bias_gradient);
  // Shaped like the inputs, after Backward of layer 0.
  absl::Span<const float> input_gradient() const { return input_gradient_; }

 private:
  struct Layer {
    std::vector<float> outputs;          // [samples, outputs]
    std::vector<float> output_gradient;  // [samples, outputs]
  };

  Activation ActivationOf(int layer) const {
    return layer + 1 == layer_count() ? Activation::kNone : Activation::kRelu;
  }
  const std::vector<float>& InputsOf(int layer) const {
    return layer == 0 ? inputs_ : layers_[layer - 1].outputs;
  }

  std::vector<int64_t> widths_;
  int64_t samples_ = 0;
  std::vector<float> inputs_;
  std::vector<float> input_gradient_;
  std::vector<Layer> layers_;
  std::vector<char> scratch_;
  CpuStream stream_;
};

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_DENSE_LAYERS_H_
