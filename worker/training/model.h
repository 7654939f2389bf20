#ifndef WORKER_TRAINING_MODEL_H_
#define WORKER_TRAINING_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Samples of one step: `features` is row-major [labels.size(), feature count].
struct Batch {
  absl::Span<const float> features;
  absl::Span<const int32_t> labels;
};

struct BatchResult {
  double loss_sum = 0;  // over the samples
  int64_t correct = 0;  // samples whose label got the highest score
};

// A network of named layers. The caller owns parameters and gradients: one span for each of
// tables(), row-major as its shape says. Keeps the activations of the last Forward for Backward.
// Not thread-safe.
class Model {
 public:
  struct Layer {
    std::string name;
    std::vector<int> tables;  // indices into tables()
  };

  virtual ~Model() = default;

  // From the input to the output.
  virtual const std::vector<Layer>& layers() const = 0;
  virtual const std::vector<v1::TableSpec>& tables() const = 0;

  // Scores and mean loss of a batch. Calls `wait_for_layer` with each layer, from the input, before
  // it reads that layer's parameters; stops with its error.
  virtual absl::StatusOr<BatchResult> Forward(
      const Batch& batch, absl::Span<const absl::Span<const float>> parameters,
      absl::FunctionRef<absl::Status(int layer)> wait_for_layer) = 0;

  // Gradients of the mean loss of the batch that Forward saw last. Calls `gradient_ready` with each
  // layer, from the output, as soon as its gradients are complete; from then on the layer's
  // parameters may change.
  virtual void Backward(const Batch& batch, absl::Span<const absl::Span<const float>> parameters,
                        absl::Span<const absl::Span<float>> gradients,
                        absl::FunctionRef<void(int layer)> gradient_ready) = 0;
};

}  // namespace capstan

#endif  // WORKER_TRAINING_MODEL_H_
