#ifndef WORKER_TRAINING_EVALUATE_H_
#define WORKER_TRAINING_EVALUATE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/dataset/dataset.h"
#include "worker/training/model.h"

namespace capstan {

struct Evaluation {
  double accuracy = 0;  // share of the samples whose label got the highest score
  double loss = 0;      // mean over the samples
};

// How well the model does on all samples of `dataset`, of which there is at least one.
absl::StatusOr<Evaluation> Evaluate(const Dataset& dataset, Model& model,
                                    absl::Span<const absl::Span<const float>> parameters);

// XXH3-64 over all parameters, as float32 little-endian, in order of table and element.
uint64_t HashParameters(absl::Span<const absl::Span<const float>> parameters);

}  // namespace capstan

#endif  // WORKER_TRAINING_EVALUATE_H_
