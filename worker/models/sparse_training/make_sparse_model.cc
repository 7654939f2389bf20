#include "worker/models/sparse_training/make_sparse_model.h"

#include "worker/models/sparse_training/deepfm.h"
#include "worker/models/sparse_training/sparse_logistic_regression.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<SparseModel>> MakeSparseModel(const v1::JobSpec& job,
                                                             const StreamData& data) {
  if (job.model().type() == v1::ModelSpec::SPARSE_LOGISTIC_REGRESSION) {
    return std::make_unique<SparseLogisticRegression>(job.model());
  }
  if (data.field_count() == 0) {
    return absl::InvalidArgumentError(
        "data: expected features with fields for --model=deepfm, got none; give --fields");
  }
  DeepFm::Options options;
  options.spec = job.model();
  options.optimizer = job.optimizer();
  options.field_count = data.field_count();
  options.dense_count = data.dense_count();
  return std::make_unique<DeepFm>(options);
}

}  // namespace capstan
