#include "server/slice/own_states.h"

#include <cstddef>
#include <vector>

#include "common/base/status_macros.h"

namespace capstan {

StateCollector& OwnStates::Programs() {
  if (programs_ == nullptr) {
    programs_ = std::make_unique<StateCollector>(StateCollector::OfPrograms());
  }
  return *programs_;
}

absl::Status OwnStates::Keep(WorkerId worker, const WorkerState& state) {
  if (!state.is_program) return arrays_.Keep(worker, state.cut, state.arrays);
  if (state.cut > 0) {
    // That of a program that has not said that it has states is of no use.
    const bool is_kept = programs_ != nullptr || state.cut == kFinalCut;
    if (!is_kept) return StateCollector::OfPrograms().Keep(worker, state.cut, state.arrays);
    return Programs().Keep(worker, state.cut, state.arrays);
  }
  Programs().Expect(worker);
  return absl::OkStatus();
}

void OwnStates::TakeCut(SliceSnapshot& cut) {
  arrays_.TakeCut(cut.own, cut.without_own);
  if (programs_ != nullptr) programs_->TakeCut(cut.programs, cut.without_own);
  if (table_ == nullptr) return;
  std::vector<SliceSnapshot::OwnState> states;
  table_->TakeCut(states, cut.without_own);
  if (states.empty()) return;
  const Payload& state = states[0].arrays;
  const size_t bytes = cut.values.size_bytes();
  cut.values = state.Subrange(0, bytes);
  cut.optimizer_state.clear();
  for (size_t offset = bytes; offset < state.size_bytes(); offset += bytes) {
    cut.optimizer_state.push_back(state.Subrange(offset, bytes));
  }
}

// The arrays', then the table's if it has one, then the programs'.
void OwnStates::SaveForCopy(SavedStates& saved, Payload& bytes) const {
  arrays_.SaveForCopy(saved.Add(), bytes);
  if (table_ != nullptr) table_->SaveForCopy(saved.Add(), bytes);
  if (programs_ != nullptr) programs_->SaveForCopy(saved.Add(), bytes);
}

absl::Status OwnStates::LoadForCopy(const SavedStates& saved, PayloadReader& bytes) {
  const int known = table_ == nullptr ? 1 : 2;
  if (saved.size() < known || saved.size() > known + 1) {
    return absl::InvalidArgumentError("a copied slice has other states of workers than expected");
  }
  RETURN_IF_ERROR(arrays_.LoadForCopy(saved[0], bytes));
  if (table_ != nullptr) RETURN_IF_ERROR(table_->LoadForCopy(saved[1], bytes));
  return saved.size() == known ? absl::OkStatus() : Programs().LoadForCopy(saved[known], bytes);
}

void OwnStates::Restore(const SliceSnapshot& snapshot) {
  arrays_.Restore(snapshot.own);
  if (!snapshot.programs.empty()) Programs().Restore(snapshot.programs);
}

Payload OwnStates::Restored(WorkerId worker, bool is_program) const {
  if (!is_program) return arrays_.Restored(worker);
  return programs_ == nullptr ? Payload() : programs_->Restored(worker);
}

}  // namespace capstan
