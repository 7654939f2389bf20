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
  // `arrays` and `size` as of StateCollector. `has_table`: the slice's table replies the mean.
  OwnStates(uint32_t arrays, size_t size, bool has_table) : arrays_(arrays, size) {
    if (has_table) table_ = std::make_unique<StateCollector>(StateCollector::OfTable(size));
  }

  uint32_t arrays() const { return arrays_.arrays(); }
  // Number of cuts so far. 0: no worker has anything to send.
  uint64_t cut() const {
    uint64_t cut = 0;
    ForEach(*this, [&cut](const StateCollector& states) { cut = std::max(cut, states.cut()); });
    return cut;
  }

  void BeginCut(absl::Span<const StepVector::Entry> workers) {
    arrays_.BeginCut(workers);
    if (programs_ != nullptr) programs_->BeginCut(workers, arrays_.number());
    if (table_ != nullptr) table_->BeginCut(workers, arrays_.number());
  }
  // Number of cuts so far, also if no worker has anything to send.
  uint64_t number() const { return arrays_.number(); }
  // As StateCollector's.
  using SavedStates = google::protobuf::RepeatedPtrField<v1::CollectedStates>;
  void SkipTo(uint64_t number) {
    ForEach(*this, [number](StateCollector& states) { states.SkipTo(number); });
  }
  void SaveForCopy(SavedStates& saved, Payload& bytes) const;
  absl::Status LoadForCopy(const SavedStates& saved, PayloadReader& bytes);
  void GiveUpCut() {
    ForEach(*this, [](StateCollector& states) { states.GiveUpCut(); });
  }
  bool is_complete() const {
    bool is_complete = true;
    ForEach(*this, [&](const StateCollector& states) { is_complete &= states.is_complete(); });
    return is_complete;
  }
  void TakeCut(SliceSnapshot& cut);

  // As StateCollector::Keep. A program's state for cut 0 says that one will come for each cut.
  absl::Status Keep(WorkerId worker, const WorkerState& state);
  // The same of the table's state. Only if the slice has a table.
  absl::Status KeepTable(WorkerId worker, const TableState& state) {
    return table_->Keep(worker, state.cut, state.arrays);
  }

  void Restore(const SliceSnapshot& snapshot);
  Payload Restored(WorkerId worker, bool is_program) const;

  void AddWorker(WorkerId worker) {
    ForEach(*this, [worker](StateCollector& states) { states.AddWorker(worker); });
  }
  void RemoveWorker(WorkerId worker) {
    ForEach(*this, [worker](StateCollector& states) { states.RemoveWorker(worker); });
  }
  void NotePush(WorkerId worker) {
    ForEach(*this, [worker](StateCollector& states) { states.NotePush(worker); });
  }

 private:
  StateCollector& Programs();
  // Self: OwnStates, constant or not.
  template <typename Self, typename Use>
  static void ForEach(Self& self, Use use) {
    use(self.arrays_);
    if (self.programs_ != nullptr) use(*self.programs_);
    if (self.table_ != nullptr) use(*self.table_);
  }

  StateCollector arrays_;
  std::unique_ptr<StateCollector> programs_;  // null: no program has a state here
  std::unique_ptr<StateCollector> table_;     // null: the slice's table does not reply the mean
};

}  // namespace capstan

#endif  // SERVER_SLICE_OWN_STATES_H_
