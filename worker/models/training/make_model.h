#ifndef WORKER_MODELS_TRAINING_MAKE_MODEL_H_
#define WORKER_MODELS_TRAINING_MAKE_MODEL_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "worker/models/training/mlp.h"
#include "worker/models/training/model.h"

namespace capstan {

// The widths of a network's layers, from the input, for samples of `features` numbers and `classes`
// classes. INVALID_ARGUMENT when the type is unspecified, a width is out of range, logistic
// regression has hidden layers, or the data has no features or fewer than two classes.
absl::StatusOr<std::vector<int64_t>> LayerWidths(const v1::ModelSpec& spec, int features,
                                                 int classes);

// INVALID_ARGUMENT when it is unspecified.
absl::StatusOr<Precision> PrecisionOf(const v1::ModelSpec& spec);

// Makes the model of `spec`. The errors are those above.
template <typename Stream>
absl::StatusOr<std::unique_ptr<Model<Stream>>> MakeModel(const v1::ModelSpec& spec, int features,
                                                         int classes) {
  ASSIGN_OR_RETURN(std::vector<int64_t> widths, LayerWidths(spec, features, classes));
  ASSIGN_OR_RETURN(const Precision precision, PrecisionOf(spec));
  return std::make_unique<Mlp<Stream>>(std::move(widths), precision);
}

}  // namespace capstan

#endif  // WORKER_MODELS_TRAINING_MAKE_MODEL_H_
