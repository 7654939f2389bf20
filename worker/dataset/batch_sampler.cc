#include "worker/dataset/batch_sampler.h"

#include <glog/logging.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "worker/dataset/dataset.h"

namespace capstan {
namespace {

uint64_t DivideRoundingUp(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

absl::Status TooFewSamples(const BatchSampler::Options& options) {
  const std::string problem = absl::StrCat(
      "too few training samples: ", options.sample_count, " for ", options.num_workers,
      " workers with a batch_size of ", options.batch_size, " would leave a batch empty: ");
  if (options.sample_count < options.num_workers) {
    return absl::InvalidArgumentError(
        absl::StrCat(problem, "use at most ", options.sample_count, " workers"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      problem, "use a batch_size of at least ",
      DivideRoundingUp(options.sample_count, options.num_workers), ", or fewer workers"));
}

}  // namespace

absl::StatusOr<BatchSampler> BatchSampler::Create(const Options& options) {
  if (options.sample_count == 0 || options.num_workers == 0 || options.batch_size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected training samples, workers and batch_size of at least 1, got ",
                     options.sample_count, ", ", options.num_workers, " and ", options.batch_size));
  }
  if (options.sample_count > UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("expected at most ", UINT32_MAX,
                                                   " training samples, got ", options.sample_count,
                                                   ": use fewer"));
  }
  const uint64_t steps_per_epoch =
      DivideRoundingUp(options.sample_count, uint64_t{options.num_workers} * options.batch_size);
  if (options.sample_count < steps_per_epoch * options.num_workers) return TooFewSamples(options);
  return BatchSampler(options, steps_per_epoch);
}

absl::Span<const uint32_t> BatchSampler::Indices(WorkerId worker, Step step) {
  CHECK_LT(worker.value(), options_.num_workers);
  CHECK_GE(step.value(), 0);
  const uint64_t step_number = static_cast<uint64_t>(step.value());
  const uint64_t epoch = step_number / steps_per_epoch_;
  if (epoch != epoch_) {
    Random random(options_.seed, kBatchStream + epoch);
    permutation_ = RandomPermutation(static_cast<uint32_t>(options_.sample_count), random);
    epoch_ = epoch;
  }
  const uint64_t batch_count = steps_per_epoch_ * options_.num_workers;
  const uint64_t batch = step_number % steps_per_epoch_ * options_.num_workers + worker.value();
  // Both factors are at most 2^32 - 1: the products fit.
  const uint64_t begin = batch * options_.sample_count / batch_count;
  const uint64_t end = (batch + 1) * options_.sample_count / batch_count;
  return absl::MakeConstSpan(permutation_).subspan(begin, end - begin);
}

}  // namespace capstan
