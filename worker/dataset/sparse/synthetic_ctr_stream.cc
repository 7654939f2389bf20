#include "worker/dataset/sparse/synthetic_ctr_stream.h"

#include <glog/logging.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<SyntheticCtrStream>> SyntheticCtrStream::Create(
    const Options& options, const SyntheticCtr* data) {
  RETURN_IF_ERROR(CheckShare(options.share));
  if (options.share.worker >= data->Count(options.part)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "synthetic samples: expected a sample for each of ", options.share.num_workers,
        " workers, got ", data->Count(options.part), ": use fewer workers, or more samples"));
  }
  return std::unique_ptr<SyntheticCtrStream>(new SyntheticCtrStream(options, data));
}

absl::StatusOr<size_t> SyntheticCtrStream::Next(size_t most, SparseBatch* batch) {
  CHECK_GT(most, 0u);
  batch->Clear();
  const uint64_t count = data_.Count(options_.part);
  while (batch->size() < most) {
    if (next_ >= count) {
      if (passes_done_ + 1 == options_.passes) break;
      ++passes_done_;
      next_ = options_.share.worker;
    }
    data_.AddSample(options_.part, next_, batch);
    // Without an overflow.
    next_ = options_.share.num_workers < count - next_ ? next_ + options_.share.num_workers : count;
  }
  return batch->size();
}

}  // namespace capstan
