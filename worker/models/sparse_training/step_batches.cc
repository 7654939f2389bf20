#include "worker/models/sparse_training/step_batches.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

uint64_t DivideUp(uint64_t a, uint64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

}  // namespace

int64_t StepsOfEpochs(uint64_t epochs, uint64_t pass_samples, uint64_t num_workers,
                      uint64_t batch_size) {
  return static_cast<int64_t>(DivideUp(epochs * DivideUp(pass_samples, num_workers), batch_size));
}

absl::StatusOr<bool> StepBatches::Next(SparseBatch* batch) {
  if (options_.steps > 0 && step_ == options_.steps) return false;
  ASSIGN_OR_RETURN(const size_t count, stream_.Next(options_.batch_size, batch));
  if (count == 0 && options_.steps > 0) {
    return absl::OutOfRangeError(
        absl::StrCat("expected samples for ", options_.steps, " steps, got those for ", step_,
                     ": give fewer --steps, or --epochs=1 to train on all samples"));
  }
  if (options_.steps == 0 && !CutToEpochs(batch)) return false;
  taken_ += batch->size();
  ++step_;
  return true;
}

bool StepBatches::CutToEpochs(SparseBatch* batch) {
  const uint64_t pass = stream_.pass_samples();
  if (pass == 0) return true;  // It is still the first epoch.
  const SampleShare& share = options_.share;
  if (step_ >= StepsOfEpochs(options_.epochs, pass, share.num_workers, options_.batch_size)) {
    return false;
  }
  const uint64_t of_pass =
      pass > share.worker ? DivideUp(pass - share.worker, share.num_workers) : 0;
  const uint64_t own = options_.epochs * of_pass;
  batch->Truncate(std::min<uint64_t>(batch->size(), own - std::min(own, taken_)));
  return true;
}

}  // namespace capstan
