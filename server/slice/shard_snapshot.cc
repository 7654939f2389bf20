#include "server/slice/shard_snapshot.h"

#include <algorithm>
#include <memory>

#include "common/base/status_macros.h"

namespace capstan {

void SliceSnapshot::EndAt(Step step) {
  min_step = std::min(min_step, step);
  largest_step = std::min(largest_step, step);
  for (StepVector::Entry& worker : workers) worker.completed = std::min(worker.completed, step);
  kept.erase(std::remove_if(kept.begin(), kept.end(),
                            [step](const KeptPush& push) { return push.step >= step; }),
             kept.end());
}

absl::Status CopyRows(ShardSnapshot& snapshot) {
  for (SliceSnapshot& slice : snapshot.slices) {
    if (slice.rows_cut != nullptr) RETURN_IF_ERROR(slice.rows_cut->Copy(snapshot.with_lock));
  }
  return absl::OkStatus();
}

void SortRows(ShardSnapshot& snapshot) {
  for (SliceSnapshot& slice : snapshot.slices) {
    if (slice.rows_cut == nullptr) continue;
    slice.rows = std::make_shared<const SparseRowsSnapshot>(slice.rows_cut->Take());
    slice.rows_cut.reset();
  }
}

}  // namespace capstan
