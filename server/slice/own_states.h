#ifndef SERVER_SLICE_OWN_STATES_H_
#define SERVER_SLICE_OWN_STATES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/exchange/payload.h"
#include "server/consistency/step_vector.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// The workers' own states of one slice. Collects them after each cut of the slice, and gives back
// those of the checkpoint from which the job goes on. Holds at most one state of each worker for
// the cut, and one for its end or its begin. A state is as large as `arrays` copies of the slice's
// values. Not thread-safe: its slice guards it.
class OwnStates {
 public:
  // A state is `arrays` arrays of `size` floats. With 0 arrays nothing is ever awaited.
  OwnStates(uint32_t arrays, size_t size) : arrays_(arrays), size_(size) {}

  uint32_t arrays() const { return arrays_; }
  // Number of cuts so far. Stays 0 without arrays, so that workers have nothing to send.
  uint64_t cut() const { return cut_; }

  // The slice has been cut just now. Awaits the state of each live worker, and gives up an earlier
  // cut.
  void BeginCut(absl::Span<const StepVector::Entry> workers);
  void GiveUpCut();
  // No state is awaited for the latest cut.
  bool is_complete() const { return awaited_.empty(); }
  // Puts the states for the latest cut into it, in order of worker.
  void TakeCut(SliceSnapshot& cut);

  // Keeps a worker's state for the cut of this number, if it is awaited. That of kFinalCut is kept
  // for all later cuts, too. INVALID_ARGUMENT: it has another size. RESOURCE_EXHAUSTED.
  absl::Status Keep(WorkerId worker, uint64_t cut, const Payload& state);

  // Begins with the states of a checkpoint.
  void Restore(absl::Span<const SliceSnapshot::OwnState> states);
  // The worker's state of the checkpoint. Empty: there is none, or the worker has pushed since.
  Payload Restored(WorkerId worker) const;

  // A process has taken the worker's place: nothing of an earlier one is awaited, nor given to it.
  // But the first process after Restore gets the worker's state of the checkpoint.
  void AddWorker(WorkerId worker);
  // The worker left or died.
  void RemoveWorker(WorkerId worker);
  void NotePush(WorkerId worker) {
    if (!restored_.empty()) restored_.erase(worker);
  }

 private:
  void GiveUpAwaiting(WorkerId worker);

  struct RestoredState {
    Payload arrays;
    bool is_claimed = false;  // a process has taken the worker's place
  };

  const uint32_t arrays_;
  const size_t size_;
  uint64_t cut_ = 0;
  std::set<WorkerId> awaited_;             // for the latest cut
  std::map<WorkerId, Payload> collected_;  // for the latest cut
  std::vector<WorkerId> lost_;             // awaited for the latest cut, until they were lost
  std::map<WorkerId, Payload> final_;      // of workers that have done all their steps
  std::map<WorkerId, RestoredState> restored_;
};

}  // namespace capstan

#endif  // SERVER_SLICE_OWN_STATES_H_
