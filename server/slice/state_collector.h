#ifndef SERVER_SLICE_STATE_COLLECTOR_H_
#define SERVER_SLICE_STATE_COLLECTOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/exchange/payload.h"
#include "proto/replica.pb.h"
#include "server/consistency/step_vector.h"
#include "server/slice/payload_reader.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// Collects one state of each worker after each cut of a slice, and gives back those of the
// checkpoint from which the job goes on. Holds at most one state of each worker for the cut, and
// one for its end or its begin. A state is as large as `arrays` copies of the slice's values, or
// bytes of a program, or of worker 0 the table's state. Not thread-safe: OwnStates has it.
class StateCollector {
 public:
  // A state is `arrays` arrays of `size` floats. With 0 arrays nothing is ever awaited.
  StateCollector(uint32_t arrays, size_t size) : StateCollector(Kind::kEngines, arrays, size) {}

  // A state is at most kMaxProgramStateBytes long. Those of workers of Expect are awaited.
  static StateCollector OfPrograms();
  // For a table that replies the mean. Each cut awaits the state of worker 0, which is 1 to
  // 1 + kMaxTableStateArrays arrays of `size` floats.
  static StateCollector OfTable(size_t size);

  uint32_t arrays() const { return arrays_; }
  // Number of cuts so far.
  uint64_t number() const { return cut_; }
  // The same. 0: no worker has anything to send.
  uint64_t cut() const {
    return arrays_ > 0 || !expected_.empty() || kind_ == Kind::kTable ? cut_ : 0;
  }

  // From now on the worker has a state for each cut, until another process takes its place.
  void Expect(WorkerId worker) { expected_.insert(worker); }

  // The slice has been cut just now, for the time `number`, or for one time more. Awaits the state
  // of each live worker that has one, and gives up an earlier cut.
  void BeginCut(absl::Span<const StepVector::Entry> workers, uint64_t number);
  void BeginCut(absl::Span<const StepVector::Entry> workers) { BeginCut(workers, cut_ + 1); }
  void GiveUpCut();
  // No state is awaited for the latest cut.
  bool is_complete() const { return awaited_.empty(); }
  // Appends the states for the latest cut, in order of worker, and the workers whose state did not
  // come because they were lost.
  void TakeCut(std::vector<SliceSnapshot::OwnState>& states, std::vector<WorkerId>& lost);

  // Keeps a worker's state for the cut of this number, if it is awaited. That of kFinalCut is kept
  // for all later cuts, too. INVALID_ARGUMENT: it has another size, or it is not finite.
  // RESOURCE_EXHAUSTED.
  absl::Status Keep(WorkerId worker, uint64_t cut, const Payload& state);

  // Begins with the states of a checkpoint.
  void Restore(absl::Span<const SliceSnapshot::OwnState> states);
  // The worker's state of the checkpoint. Empty: there is none, or the worker has pushed since.
  Payload Restored(WorkerId worker) const;

  // For a copy: what there is beside the states for the latest cut; the bytes of states go to
  // `bytes`, and come from it. INVALID_ARGUMENT; RESOURCE_EXHAUSTED.
  void SaveForCopy(v1::CollectedStates* states, Payload& bytes) const;
  absl::Status LoadForCopy(const v1::CollectedStates& states, PayloadReader& bytes);
  // The slice has been cut for the time `number`; nothing is awaited for it here.
  void SkipTo(uint64_t number) { cut_ = number; }

  // A process has taken the worker's place: nothing of an earlier one is awaited, nor given to it.
  // But the first process after Restore gets the worker's state of the checkpoint, and has one for
  // each cut from then on.
  void AddWorker(WorkerId worker);
  // The worker left or died.
  void RemoveWorker(WorkerId worker);
  void NotePush(WorkerId worker) {
    if (!restored_.empty()) restored_.erase(worker);
    if (kind_ == Kind::kTable) final_.erase(worker);  // It was not the last one.
    if (kind_ == Kind::kPrograms && awaited_.count(worker) > 0) late_.insert(worker);
  }

 private:
  enum class Kind { kEngines, kPrograms, kTable };

  StateCollector(Kind kind, uint32_t arrays, size_t size)
      : kind_(kind), arrays_(arrays), size_(size) {}

  bool HasState(WorkerId worker) const;
  absl::Status Check(WorkerId worker, const Payload& state) const;
  void GiveUpAwaiting(WorkerId worker);

  struct RestoredState {
    Payload arrays;
    bool is_claimed = false;  // a process has taken the worker's place
  };

  Kind kind_;
  uint32_t arrays_;  // of an engine's state
  size_t size_;      // of an array
  uint64_t cut_ = 0;
  std::set<WorkerId> expected_;            // of Expect
  std::set<WorkerId> awaited_;             // for the latest cut
  std::set<WorkerId> late_;                // of them, those of programs that have pushed since
  std::map<WorkerId, Payload> collected_;  // for the latest cut
  std::vector<WorkerId> lost_;             // awaited for the latest cut, until they were lost
  std::map<WorkerId, Payload> final_;      // of workers that have done all their steps
  std::map<WorkerId, RestoredState> restored_;
};

}  // namespace capstan

#endif  // SERVER_SLICE_STATE_COLLECTOR_H_
