#ifndef WORKER_TRAINING_MODEL_H_
#define WORKER_TRAINING_MODEL_H_

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

// Loss, summed over a batch, and its samples whose label got the highest score.
using BatchResult = SoftmaxCrossEntropyResult;

// A network of named layers, computed on a stream: batch, parameters, gradients, workspace and
// result are in the stream's memory, and a call only queues what it does. The caller owns all of
// that memory; parameters and gradients are one span for each of tables(), row-major as its shape
// says. Keeps the activations of the last Forward for Backward. Not thread-safe.
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

  // Memory that batches of up to `max_samples` need on `stream`, in bytes.
  virtual size_t WorkspaceBytes(int64_t max_samples, const Stream& stream) const = 0;
  // Before all that follows: `workspace` has that many bytes, aligned to 256.
  virtual void UseWorkspace(void* workspace, int64_t max_samples, const Stream& stream) = 0;

  // Scores of a batch, and the loss into `result`. Calls `wait_for_layer` with each layer, from the
  // input, before it queues what reads that layer's parameters; stops with its error. `result`
  // holds until the next Forward.
  virtual absl::Status Forward(const Batch& batch, Parameters parameters,
                               absl::FunctionRef<absl::Status(int layer)> wait_for_layer,
                               BatchResult* result, Stream& stream) = 0;

  // Gradients of the mean loss of the batch that Forward saw last. Calls `gradient_ready` with each
  // layer, from the output, as soon as what makes its gradients is queued; nothing queued later
  // reads the layer's parameters, so that newer values may then overwrite them.
  virtual absl::Status Backward(const Batch& batch, Parameters parameters, Gradients gradients,
                                absl::FunctionRef<absl::Status(int layer)> gradient_ready,
                                Stream& stream) = 0;
};

}  // namespace capstan

#endif  // WORKER_TRAINING_MODEL_H_
