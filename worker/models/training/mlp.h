#ifndef WORKER_MODELS_TRAINING_MLP_H_
#define WORKER_MODELS_TRAINING_MLP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/tensor/bfloat16.h"
#include "common/tensor/memory_cutter.h"
#include "proto/coordinator_service.pb.h"
#include "worker/models/training/model.h"

namespace capstan {

// Arithmetic of the matrix products; their sums, and everything else, are float32.
enum class Precision {
  kFloat32,
  kTf32,      // a GPU's tensor cores may round the inputs to 10 bits; elsewhere float32
  kBfloat16,  // the inputs are rounded to bfloat16
};

// Fully connected layers: ReLU between them, softmax cross-entropy at the end. Layer "fc1" has the
// tables "fc1.weight", of shape [inputs, outputs], and "fc1.bias", of [outputs]; "fc2" follows. A
// single layer is called "linear". mlp_cpu and mlp_cuda instantiate it. Not thread-safe.
template <typename Stream>
class Mlp : public Model<Stream> {
 public:
  using typename Model<Stream>::Layer;
  using typename Model<Stream>::Parameters;
  using typename Model<Stream>::Gradients;

  // `widths`: of the input, of each hidden layer, and of the output; at least 2, all at least 1.
  Mlp(std::vector<int64_t> widths, Precision precision);

  const std::vector<Layer>& layers() const override { return layers_; }
  const std::vector<v1::TableSpec>& tables() const override { return tables_; }

  size_t WorkspaceBytes(int64_t max_samples, const Stream& stream) const override;
  void UseWorkspace(void* workspace, int64_t max_samples, const Stream& stream) override;

  absl::Status Forward(const Batch& batch, Parameters parameters,
                       absl::FunctionRef<absl::Status(int layer)> wait_for_layer,
                       BatchResult* result, Stream& stream) override;
  absl::Status Backward(const Batch& batch, Parameters parameters, Gradients gradients,
                        absl::FunctionRef<absl::Status(int layer)> gradient_ready,
                        Stream& stream) override;

 private:
  // A layer's outputs and their gradient, row-major [samples, width]. kBfloat16 adds rounded
  // copies of the layer's inputs [samples, inputs] and weights.
  struct Activations {
    float* outputs = nullptr;
    float* output_gradient = nullptr;
    Bfloat16* rounded_inputs = nullptr;
    Bfloat16* rounded_weights = nullptr;
  };
  struct Workspace {
    std::vector<Activations> layers;
    Bfloat16* rounded_gradient = nullptr;
    void* scratch = nullptr;  // of one operation at a time
  };

  int layer_count() const { return static_cast<int>(layers_.size()); }
  bool IsLast(int layer) const { return layer + 1 == layer_count(); }
  int64_t inputs(int layer) const { return widths_[layer]; }
  int64_t outputs(int layer) const { return widths_[layer + 1]; }
  void AddTable(int layer, const char* suffix, const std::vector<int64_t>& shape,
                double initial_stddev);
  Workspace Cut(MemoryCutter& cutter, int64_t max_samples, const Stream& stream) const;
  // Inputs of a layer: the features, or the outputs of the layer before.
  const float* Inputs(int layer, const Batch& batch) const;

  // outputs = inputs x weights.
  absl::Status ForwardProduct(int layer, const float* inputs, const float* weights, Stream& stream);
  // weight_gradient = inputs^T x output gradient; above the first layer also the gradient of the
  // layer before = output gradient x weights^T.
  absl::Status BackwardProducts(int layer, const float* inputs, const float* weights,
                                float* weight_gradient, Stream& stream);
  absl::Status RoundedBackwardProducts(int layer, float* weight_gradient, Stream& stream);

  const std::vector<int64_t> widths_;
  const Precision precision_;
  std::vector<Layer> layers_;
  std::vector<v1::TableSpec> tables_;
  Workspace workspace_;
  int64_t max_samples_ = 0;
  int64_t samples_ = 0;  // of the last Forward
};

}  // namespace capstan

#endif  // WORKER_MODELS_TRAINING_MLP_H_
