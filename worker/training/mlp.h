#ifndef WORKER_TRAINING_MLP_H_
#define WORKER_TRAINING_MLP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/host_buffer.h"
#include "proto/coordinator_service.pb.h"
#include "worker/training/model.h"

namespace capstan {

// Fully connected layers on the CPU: ReLU between them, softmax cross-entropy at the end. Layer
// "fc1" has the tables "fc1.weight", of shape [inputs, outputs], and "fc1.bias", of [outputs];
// "fc2" follows. A single layer is called "linear". Not thread-safe.
class Mlp : public Model {
 public:
  // `widths`: of the input, of each hidden layer, and of the output; at least 2, all at least 1.
  explicit Mlp(std::vector<int64_t> widths);

  const std::vector<Layer>& layers() const override { return layers_; }
  const std::vector<v1::TableSpec>& tables() const override { return tables_; }

  // INVALID_ARGUMENT when a label is no class, or the features do not fit the labels in number.
  absl::StatusOr<BatchResult> Forward(
      const Batch& batch, absl::Span<const absl::Span<const float>> parameters,
      absl::FunctionRef<absl::Status(int layer)> wait_for_layer) override;

  // Once `gradient_ready` is called with a layer, that layer's parameters are not read any more:
  // newer values may overwrite them.
  void Backward(const Batch& batch, absl::Span<const absl::Span<const float>> parameters,
                absl::Span<const absl::Span<float>> gradients,
                absl::FunctionRef<void(int layer)> gradient_ready) override;

 private:
  int layer_count() const { return static_cast<int>(layers_.size()); }
  bool IsLast(int layer) const { return layer + 1 == layer_count(); }
  void AddTable(int layer, const char* suffix, const std::vector<int64_t>& shape,
                double initial_stddev);
  absl::Status CheckBatch(const Batch& batch) const;
  void Reserve(int64_t samples);
  // What layer `layer` reads: the features, or the outputs of the layer before.
  const float* Inputs(int layer, const Batch& batch) const;

  const std::vector<int64_t> widths_;
  std::vector<Layer> layers_;
  std::vector<v1::TableSpec> tables_;

  // Of the last Forward: row-major [samples, width] for each layer, with room for
  // reserved_samples_.
  std::vector<HostBuffer> outputs_;
  std::vector<HostBuffer> output_gradients_;
  int64_t reserved_samples_ = 0;
  int64_t samples_ = 0;
};

}  // namespace capstan

#endif  // WORKER_TRAINING_MLP_H_
