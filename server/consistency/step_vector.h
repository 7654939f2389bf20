#ifndef SERVER_CONSISTENCY_STEP_VECTOR_H_
#define SERVER_CONSISTENCY_STEP_VECTOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"

namespace capstan {

// The number of steps of one slice completed by each worker. It lets a push be applied exactly
// once, and yields min_step. Not thread-safe: the owner of the slice guards it.
class StepVector {
 public:
  // What is known of one worker.
  struct Entry {
    WorkerId worker;
    Step completed;  // number of steps
    bool is_live = true;
    std::optional<Step> first_step = std::nullopt;  // as Enter said, until EndFirstStep
  };

  // Adds live workers, all at once. A new one enters at min_step(). A known one continues at its
  // own step, or at min_step() if that is later.
  void Add(absl::Span<const WorkerId> workers);
  // Moves an added worker to `first_step`, unless it is past it already. Its process begins with
  // that step.
  void Enter(WorkerId worker, Step first_step);
  // The worker left or died. It counts no more, but its pushes stay known.
  void Remove(WorkerId worker);

  // Notes the push of `step`. False: this push or a later one was noted before.
  bool Advance(WorkerId worker, Step step);
  // The worker's push of `step` has come, perhaps not for the first time.
  void EndFirstStep(WorkerId worker, Step step);
  // Whether the worker's process begins with `step`, until EndFirstStep.
  bool BeginsWith(WorkerId worker, Step step) const {
    const auto found = workers_.find(worker);
    return found != workers_.end() && found->second.first_step == step;
  }

  // Smallest number of steps completed by a live worker. Never decreases; without live workers it
  // stays unchanged.
  Step min_step() const { return min_step_; }
  bool is_live(WorkerId worker) const {
    const auto found = workers_.find(worker);
    return found != workers_.end() && found->second.is_live;
  }
  // Number of live workers.
  uint64_t live_count() const;
  // All workers, in order of id.
  std::vector<Entry> entries() const;
  // Goes on where another vector was, with its entries and its min_step. Its live workers count
  // until they are removed. Only for a new vector.
  void Restore(absl::Span<const Entry> entries, Step min_step);
  // For a copy, which learns both from another vector: its entries and its min_step as they are
  // now; or that the worker has completed a number of steps.
  void Follow(absl::Span<const Entry> entries, Step min_step);
  void Follow(WorkerId worker, Step completed, Step min_step);
  bool knows(WorkerId worker) const { return workers_.count(worker) > 0; }
  // Steps completed by an added worker.
  Step completed(WorkerId worker) const { return workers_.at(worker).completed; }

 private:
  struct Worker {
    Step completed;
    bool is_live = true;
    std::optional<Step> first_step = std::nullopt;  // as Enter said, until EndFirstStep
  };

  void UpdateMinStep();

  std::map<WorkerId, Worker> workers_;
  Step min_step_;
};

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_STEP_VECTOR_H_
