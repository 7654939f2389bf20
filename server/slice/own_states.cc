#include "server/slice/own_states.h"

namespace capstan {

StateCollector& OwnStates::Programs() {
  if (programs_ == nullptr) {
    programs_ = std::make_unique<StateCollector>(StateCollector::OfPrograms());
  }
  return *programs_;
}

absl::Status OwnStates::Keep(WorkerId worker, const WorkerState& state) {
  if (!state.is_program) return arrays_.Keep(worker, state.cut, state.arrays);
  if (state.cut > 0) return Programs().Keep(worker, state.cut, state.arrays);
  Programs().Expect(worker);
  return absl::OkStatus();
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
