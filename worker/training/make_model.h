#ifndef WORKER_TRAINING_MAKE_MODEL_H_
#define WORKER_TRAINING_MAKE_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/training/model.h"

namespace capstan {

// The model that `spec` describes, for samples of `features` numbers in one of `classes` classes.
// INVALID_ARGUMENT when the type is unspecified, a width is out of range, logistic regression has
// hidden layers, or the data has no features or fewer than two classes.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const v1::ModelSpec& spec, int features,
                                                 int classes);

}  // namespace capstan

#endif  // WORKER_TRAINING_MAKE_MODEL_H_
