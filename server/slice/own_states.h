#ifndef SERVER_SLICE_OWN_STATES_H_
#define SERVER_SLICE_OWN_STATES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/payload.h"
#include "server/consistency/step_vector.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/state_collector.h"

namespace capstan {

// The workers' own states of one slice, for its cuts and from a checkpoint: the arrays of their
// engines, and in one slice of the job the bytes of their programs. Not thread-safe: its slice
// guards it.
class OwnStates {
 public:
  // As StateCollector.
  OwnStates(uint32_t arrays, size_t size) : arrays_(arrays, size) {}

  uint32_t arrays() const { return arrays_.arrays(); }
  // Number of cuts so far. 0: no worker has anything to send.
  uint64_t cut() const { return std::max(arrays_.cut(), programs_ ? programs_->cut() : 0); }

  void BeginCut(absl::Span<const StepVector::Entry> workers) {
    arrays_.BeginCut(workers);
    if (programs_ != nullptr) programs_->BeginCut(workers, arrays_.number());
  }
  void GiveUpCut() {
    arrays_.GiveUpCut();
    if (programs_ != nullptr) programs_->GiveUpCut();
  }
  bool is_complete() const {
    return arrays_.is_complete() && (programs_ == nullptr || programs_->is_complete());
  }
  void TakeCut(SliceSnapshot& cut) {
    arrays_.TakeCut(cut.own, cut.without_own);
    if (programs_ != nullptr) programs_->TakeCut(cut.programs, cut.without_own);
  }

  // As StateCollector::Keep. A program's state for cut 0 says that one will come for each cut.
  absl::Status Keep(WorkerId worker, const WorkerState& state);

  void Restore(const SliceSnapshot& snapshot);
  Payload Restored(WorkerId worker, bool is_program) const;

  void AddWorker(WorkerId worker) {
    arrays_.AddWorker(worker);
    if (programs_ != nullptr) programs_->AddWorker(worker);
  }
  void RemoveWorker(WorkerId worker) {
    arrays_.RemoveWorker(worker);
    if (programs_ != nullptr) programs_->RemoveWorker(worker);
  }
  void NotePush(WorkerId worker) {
    arrays_.NotePush(worker);
    if (programs_ != nullptr) programs_->NotePush(worker);
  }

 private:
  StateCollector& Programs();

  StateCollector arrays_;
  std::unique_ptr<StateCollector> programs_;  // null: no program has a state here
};

}  // namespace capstan

#endif  // SERVER_SLICE_OWN_STATES_H_
