#ifndef SERVER_CONSISTENCY_STEP_VECTOR_H_
#define SERVER_CONSISTENCY_STEP_VECTOR_H_

#include <cstdint>
#include <map>

#include "common/base/ids.h"

namespace capstan {

// How many steps each worker has completed of one slice: what makes a push apply exactly once, and
// what min_step comes from. Not thread-safe: the owner of the slice guards it.
class StepVector {
 public:
  // A live worker. It enters at min_step(), or, when it is known already, where it was.
  void Add(WorkerId worker);
  // A worker that was added begins at `first_step`, unless it is past that.
  void Enter(WorkerId worker, Step first_step);
  // A worker that left or died: it counts no more, but its pushes stay known.
  void Remove(WorkerId worker);

  // Notes the push of `step`; false when it, or a later one, was noted before.
  bool Advance(WorkerId worker, Step step);

  // Smallest number of steps completed by a live worker. Never goes back; stays where it was when
  // nobody is left.
  Step min_step() const { return min_step_; }
  // Number of workers that were added, and neither left nor died.
  uint64_t live_count() const;
  // Steps completed by a worker that was added.
  Step completed(WorkerId worker) const { return workers_.at(worker).completed; }

 private:
  struct Worker {
    Step completed;
    bool is_live = true;
  };

  void UpdateMinStep();

  std::map<WorkerId, Worker> workers_;
  Step min_step_;
};

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_STEP_VECTOR_H_
