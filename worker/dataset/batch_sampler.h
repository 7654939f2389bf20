#ifndef WORKER_DATASET_BATCH_SAMPLER_H_
#define WORKER_DATASET_BATCH_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace capstan {

// Chooses the samples of each worker and step from (seed, worker, step) alone. In every epoch, the
// batches of all workers together hold each sample exactly once. Each epoch has its own order. The
// sizes of batches differ by at most one. Not thread-safe.
class BatchSampler {
 public:
  struct Options {
    uint64_t sample_count = 0;  // Required
    uint32_t num_workers = 0;   // Required
    uint32_t batch_size = 0;    // Required: most samples of one worker and step
    uint64_t seed = 1;          // the job's
  };

  // INVALID_ARGUMENT when an option is 0, or there are too few samples to fill every worker's
  // batches.
  static absl::StatusOr<BatchSampler> Create(const Options& options);

  // sample_count / (num_workers x batch_size), rounded up.
  int64_t steps_per_epoch() const { return static_cast<int64_t>(steps_per_epoch_); }

  // The samples of `worker` at `step`; at least one. Valid until the next call for another epoch.
  absl::Span<const uint32_t> Indices(WorkerId worker, Step step);

 private:
  BatchSampler(const Options& options, uint64_t steps_per_epoch)
      : options_(options), steps_per_epoch_(steps_per_epoch) {}

  Options options_;
  uint64_t steps_per_epoch_;
  uint64_t epoch_ = UINT64_MAX;  // of permutation_; UINT64_MAX before the first
  std::vector<uint32_t> permutation_;
};

}  // namespace capstan

#endif  // WORKER_DATASET_BATCH_SAMPLER_H_
