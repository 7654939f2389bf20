#ifndef WORKER_MODELS_TRAINING_MODEL_H_
#define WORKER_MODELS_TRAINING_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/softmax_cross_entropy.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Samples of one step: `features` is row-major [labels.size(), feature count].
struct Batch {
  absl::Span<const float> features;
  absl::Span<const int32_t> labels;
};

// Loss, summed over a batch, and the number of samples with the highest score at their label.
using BatchResult = SoftmaxCrossEntropyResult;

// A network of named layers, computed on a stream. Calls only queue work. Batch, parameters,
// gradients, workspace and result lie in the stream's memory and belong to the caller. Parameters
// and gradients have one row-major span for each of tables(). Forward keeps its activations for
// Backward. Not thread-safe.
template <typename Stream>
class Model {
 public:
  struct Layer {
    std::string name;
    std::vector<int> tables;  // indices into tables()
  };
  using Parameters = absl::Span<const absl::Span<const float>>;
  using Gradients = absl::Span<const absl::Span<float>>;

  virtual ~Model() = default;

  // From the input to the output.
  virtual const std::vector<Layer>& layers() const = 0;
  virtual const std::vector<v1::TableSpec>& tables() const = 0;

  // Bytes of workspace for batches of up to `max_samples` on `stream`.
  virtual size_t WorkspaceBytes(int64_t max_samples, const Stream& stream) const = 0;
  // Called before Forward and Backward. `workspace` has WorkspaceBytes bytes, aligned to 256.
  virtual void UseWorkspace(void* workspace, int64_t max_samples, const Stream& stream) = 0;

  // Computes the scores of a batch, and the loss into `result`, valid until the next Forward. Calls
  // `wait_for_layer` with each layer, from the input, before it queues any read of that layer's
  // parameters. Returns the first error of `wait_for_layer`.
  virtual absl::Status Forward(const Batch& batch, Parameters parameters,
                               absl::FunctionRef<absl::Status(int layer)> wait_for_layer,
                               BatchResult* result, Stream& stream) = 0;

  // Computes the gradients of the mean loss of Forward's last batch. Calls `gradient_ready` with
  // each layer, from the output, as soon as the work for the layer's gradients is queued. Work
  // queued later does not read the layer's parameters, so newer values may overwrite them.
  virtual absl::Status Backward(const Batch& batch, Parameters parameters, Gradients gradients,
                                absl::FunctionRef<absl::Status(int layer)> gradient_ready,
                                Stream& stream) = 0;
};

}  // namespace capstan

#endif  // WORKER_MODELS_TRAINING_MODEL_H_
