#ifndef WORKER_MODELS_TRAINING_EVALUATE_H_
#define WORKER_MODELS_TRAINING_EVALUATE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/models/training/model.h"

namespace capstan {

struct Evaluation {
  double accuracy = 0;  // share of the samples with the highest score at their label
  double loss = 0;      // mean over the samples
};

// Largest batch of Evaluate, in samples.
inline constexpr int64_t kEvaluationBatch = 256;

// Evaluates a model on the samples 0 ... `sample_count` - 1, at least one. `run` computes a batch.
absl::StatusOr<Evaluation> Evaluate(
    size_t sample_count,
    absl::FunctionRef<absl::StatusOr<BatchResult>(absl::Span<const uint32_t> samples)> run);

// The best prediction from the labels' frequencies alone, the same for every sample.
struct ConstantGuess {
  double accuracy = 0;  // share of the most frequent label
  double loss = 0;      // entropy of the labels' distribution, in nats
};

// Labels are 0 or more. Both figures are 0 without labels.
ConstantGuess BestConstantGuess(absl::Span<const int32_t> labels);

// XXH3-64 over all parameters, as float32 little-endian, in order of table and element.
uint64_t HashParameters(absl::Span<const absl::Span<const float>> parameters);

}  // namespace capstan

#endif  // WORKER_MODELS_TRAINING_EVALUATE_H_
