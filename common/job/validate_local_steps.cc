#include "common/job/validate_local_steps.h"

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "common/job/job_properties.h"
#include "common/job/local_steps_check.h"
#include "common/job/optimizer_check.h"

namespace capstan {
namespace {

// Why workers with this model have no local steps of the job; empty: they may.
std::string RefusalOf(v1::ModelSpec::Type model) {
  switch (model) {
    case v1::ModelSpec::MLP:
    case v1::ModelSpec::LOGISTIC_REGRESSION:
    case v1::ModelSpec::REPLAY:
    case v1::ModelSpec::TYPE_UNSPECIFIED:
      break;
    case v1::ModelSpec::PROGRAM:
      return "0, as a program has local steps of its own, such as capstan.torch.LocalSteps";
    case v1::ModelSpec::SPARSE_LOGISTIC_REGRESSION:
    case v1::ModelSpec::DEEPFM:
      return "0, as the model has a sparse table: a worker has not all rows, so it cannot train "
             "alone";
    case v1::ModelSpec::UPDATES:
      return "0, as updates has no model to train";
  }
  return "";
}

}  // namespace

void CheckLocalStepsJob(const v1::JobSpec& job, JobChecker* checker) {
  const v1::LocalStepsSpec& local_steps = job.training().local_steps();
  const double seconds = local_steps.round_seconds();
  checker->Expect(std::isfinite(seconds) && seconds >= 0, "round_seconds",
                  "0 (none) or a finite number above 0");
  if (!HasLocalSteps(job)) return;
  const bool is_by_time = seconds > 0;
  checker->Expect(!is_by_time || local_steps.sync_every() == 0, "round_seconds",
                  "0, as local_steps is given: one of the two");
  const std::string refusal = RefusalOf(job.model().type());
  checker->Expect(refusal.empty(), is_by_time ? "round_seconds" : "local_steps", refusal);
  checker->ExpectOk(CheckLocalSteps(RoundsOf(local_steps), /*is_replaceable=*/false),
                    is_by_time ? "round_seconds" : "local_steps");
  checker->Expect(!is_by_time || job.training().steps() >= 1, "steps",
                  "the number of rounds, as round_seconds is given");
  checker->ExpectOk(CheckDenseOptimizer(LocalOptimizer(local_steps)), "local_optimizer");
  v1::JobSpec filled = job;
  FillOuterOptimizer(&filled);
  checker->ExpectOk(CheckOuterMomentum(job.consistency(), filled.optimizer()), "optimizer");
}

}  // namespace capstan
