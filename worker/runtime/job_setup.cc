#include "worker/runtime/job_setup.h"

#include <utility>

#include "common/base/status_macros.h"
#include "worker/dataset/load_data.h"
#include "worker/training/make_model.h"

namespace capstan {

absl::StatusOr<JobSetup> PrepareJob(const v1::JobSpec& job) {
  ASSIGN_OR_RETURN(DataSplit data, LoadData(job.data(), job.seed()));
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                   MakeModel(job.model(), data.train.feature_count, data.train.class_count));
  BatchSampler::Options options;
  options.sample_count = data.train.size();
  options.num_workers = job.cluster().num_workers();
  options.batch_size = job.training().batch_size();
  options.seed = job.seed();
  ASSIGN_OR_RETURN(BatchSampler sampler, BatchSampler::Create(options));
  const int64_t steps = job.training().steps() > 0
                            ? static_cast<int64_t>(job.training().steps())
                            : job.training().epochs() * sampler.steps_per_epoch();
  return JobSetup{std::move(data), std::move(model), std::move(sampler), steps};
}

}  // namespace capstan
