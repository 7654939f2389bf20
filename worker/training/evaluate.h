#ifndef WORKER_TRAINING_EVALUATE_H_
#define WORKER_TRAINING_EVALUATE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/training/model.h"

namespace capstan {

struct Evaluation {
  double accuracy = 0;  // share of the samples whose label got the highest score
  double loss = 0;      // mean over the samples
};

// Samples of a batch of Evaluate at most.
inline constexpr int64_t kEvaluationBatch = 256;

// How well a model does on all of `sample_count` > 0 samples, of which `run` computes a batch.
absl::StatusOr<Evaluation> Evaluate(
    size_t sample_count,
    absl::FunctionRef<absl::StatusOr<BatchResult>(absl::Span<const uint32_t> samples)> run);

// The best that can be had without looking at a sample.
struct ConstantGuess {
  double accuracy = 0;  // share of the most frequent label
  double loss = 0;      // of the labels' own distribution: its entropy, in nats
};

// Over labels of 0 or more; zeros where there are none.
ConstantGuess BestConstantGuess(absl::Span<const int32_t> labels);

// XXH3-64 over all parameters, as float32 little-endian, in order of table and element.
uint64_t HashParameters(absl::Span<const absl::Span<const float>> parameters);

}  // namespace capstan

#endif  // WORKER_TRAINING_EVALUATE_H_
