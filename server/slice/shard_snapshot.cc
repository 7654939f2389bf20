#include "server/slice/shard_snapshot.h"

#include <algorithm>

namespace capstan {

void SliceSnapshot::EndAt(Step step) {
  min_step = std::min(min_step, step);
  largest_step = std::min(largest_step, step);
  for (StepVector::Entry& worker : workers) worker.completed = std::min(worker.completed, step);
  kept.erase(std::remove_if(kept.begin(), kept.end(),
                            [step](const KeptPush& push) { return push.step >= step; }),
             kept.end());
}

}  // namespace capstan
