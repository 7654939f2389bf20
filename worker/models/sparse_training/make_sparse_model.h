#ifndef WORKER_MODELS_SPARSE_TRAINING_MAKE_SPARSE_MODEL_H_
#define WORKER_MODELS_SPARSE_TRAINING_MAKE_SPARSE_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/models/sparse_training/sparse_model.h"
#include "worker/models/sparse_training/stream_data.h"

namespace capstan {

// The model of a job that learns from a stream (LearnsFromStream), for its data. INVALID_ARGUMENT:
// the data have no fields, and the model needs them.
absl::StatusOr<std::unique_ptr<SparseModel>> MakeSparseModel(const v1::JobSpec& job,
                                                             const StreamData& data);

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_MAKE_SPARSE_MODEL_H_
