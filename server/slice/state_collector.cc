#include "server/slice/state_collector.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/host_buffer.h"
#include "kernels/cpu/gradients.h"

namespace capstan {
namespace {

// Memory of a connection must not be kept: it counts against the connection's bound.
absl::StatusOr<Payload> CopyOf(const Payload& state) {
  if (state.empty()) return Payload();
  const size_t floats = (state.size_bytes() + sizeof(float) - 1) / sizeof(float);
  ASSIGN_OR_RETURN(HostBuffer buffer, HostBuffer::Create(floats));
  const auto copy = std::make_shared<HostBuffer>(std::move(buffer));
  const absl::Span<uint8_t> bytes(reinterpret_cast<uint8_t*>(copy->span().data()),
                                  state.size_bytes());
  state.CopyTo(bytes);
  Payload kept{copy};
  kept.Append(bytes);
  return kept;
}

}  // namespace

// Under BSP a worker's state for an exact cut of step c is the one after its push of step c - 1.
// The cut is done before any pull of step c is answered. This pull is the worker's first answer
// after the cut, and a worker pushes nothing of step c before it has the values of step c. Under
// SSP and async the first answer after the cut may be that of one more push. Then the state has
// this push, too.
void StateCollector::BeginCut(absl::Span<const StepVector::Entry> workers, uint64_t number) {
  GiveUpCut();
  cut_ = number;
  for (const StepVector::Entry& worker : workers) {
    if (!worker.is_live || !HasState(worker.worker)) continue;
    const auto final = final_.find(worker.worker);
    if (final != final_.end()) {
      collected_.insert(*final);
    } else {
      awaited_.insert(worker.worker);
    }
  }
}

void StateCollector::GiveUpCut() {
  awaited_.clear();
  late_.clear();
  collected_.clear();
  lost_.clear();
}

void StateCollector::TakeCut(std::vector<SliceSnapshot::OwnState>& states,
                             std::vector<WorkerId>& lost) {
  for (auto& [worker, arrays] : std::exchange(collected_, {})) {
    states.push_back({worker, std::move(arrays)});
  }
  lost.insert(lost.end(), lost_.begin(), lost_.end());
  lost_.clear();
}

void StateCollector::GiveUpAwaiting(WorkerId worker) {
  if (awaited_.erase(worker) > 0) lost_.push_back(worker);
}

StateCollector StateCollector::OfPrograms() {
  return StateCollector(Kind::kPrograms, /*arrays=*/0, /*size=*/0);
}

StateCollector StateCollector::OfTable(size_t size) {
  return StateCollector(Kind::kTable, /*arrays=*/0, size);
}

bool StateCollector::HasState(WorkerId worker) const {
  switch (kind_) {
    case Kind::kEngines:
      return arrays_ > 0;
    case Kind::kPrograms:
      return expected_.count(worker) > 0;
    case Kind::kTable:
      break;
  }
  return worker == WorkerId(0);
}

absl::Status StateCollector::Check(WorkerId worker, const Payload& state) const {
  if (kind_ == Kind::kPrograms) {
    if (state.size_bytes() <= kMaxProgramStateBytes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("expected a program's state of at most ",
                                                   kMaxProgramStateBytes, " bytes, got ",
                                                   state.size_bytes()));
  }
  if (kind_ == Kind::kTable) {
    const size_t array = size_ * sizeof(float);
    const size_t arrays = state.size_bytes() / array;
    if (arrays >= 1 && arrays <= 1 + kMaxTableStateArrays && arrays * array == state.size_bytes()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("expected the table's state as 1 to ",
                                                   1 + kMaxTableStateArrays, " arrays of ", size_,
                                                   " float32, got ", state.size_bytes(), " bytes"));
  }
  const size_t bytes = arrays_ * size_ * sizeof(float);
  if (arrays_ == 0 || state.size_bytes() != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected an own state of ", bytes, " bytes (", arrays_, " arrays of ", size_,
        " float32), got ", state.size_bytes(), "; worker and server disagree on the job"));
  }
  if (!state.ForEachBlock([](size_t, absl::Span<const float> block) { return IsFinite(block); })) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a finite own state, but that of worker ", worker.value(),
                     " holds a NaN or an infinity"));
  }
  return absl::OkStatus();
}

absl::Status StateCollector::Keep(WorkerId worker, uint64_t cut, const Payload& state) {
  RETURN_IF_ERROR(Check(worker, state));
  const bool is_final = cut == kFinalCut && (final_.count(worker) == 0 || kind_ == Kind::kTable);
  const bool is_awaited = awaited_.count(worker) > 0 && (cut == cut_ || cut == kFinalCut);
  if (!is_final && !is_awaited) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Payload kept, CopyOf(state));
  if (is_final) {
    final_[worker] = kept;
    restored_.erase(worker);
  }
  if (is_awaited && cut == kFinalCut && late_.count(worker) > 0) {
    // A program that did not answer in time: its last state is not that of the cut.
    GiveUpAwaiting(worker);
  } else if (is_awaited) {
    collected_[worker] = kept;
    awaited_.erase(worker);
  }
  return absl::OkStatus();
}

void StateCollector::Restore(absl::Span<const SliceSnapshot::OwnState> states) {
  for (const SliceSnapshot::OwnState& state : states) {
    restored_[state.worker].arrays = state.arrays;
  }
}

Payload StateCollector::Restored(WorkerId worker) const {
  const auto found = restored_.find(worker);
  return found == restored_.end() ? Payload() : found->second.arrays;
}

void StateCollector::SaveForCopy(v1::CollectedStates* states, Payload& bytes) const {
  states->set_cut(cut_);
  for (const WorkerId worker : expected_) states->add_expected(worker.value());
  for (const auto& [worker, state] : final_) {
    v1::StateOfWorker& saved = *states->add_final();
    saved.set_worker(worker.value());
    saved.set_bytes(state.size_bytes());
    bytes.Append(state);
  }
  for (const auto& [worker, state] : restored_) {
    v1::StateOfWorker& saved = *states->add_restored();
    saved.set_worker(worker.value());
    saved.set_bytes(state.arrays.size_bytes());
    saved.set_is_claimed(state.is_claimed);
    bytes.Append(state.arrays);
  }
}

absl::Status StateCollector::LoadForCopy(const v1::CollectedStates& states, PayloadReader& bytes) {
  cut_ = states.cut();
  for (const uint32_t worker : states.expected()) expected_.insert(WorkerId(worker));
  for (const v1::StateOfWorker& saved : states.final()) {
    ASSIGN_OR_RETURN(const Payload state, bytes.Take(saved.bytes()));
    ASSIGN_OR_RETURN(final_[WorkerId(saved.worker())], CopyOf(state));
  }
  for (const v1::StateOfWorker& saved : states.restored()) {
    ASSIGN_OR_RETURN(const Payload state, bytes.Take(saved.bytes()));
    ASSIGN_OR_RETURN(const Payload kept, CopyOf(state));
    restored_[WorkerId(saved.worker())] = {kept, saved.is_claimed()};
  }
  return absl::OkStatus();
}

void StateCollector::AddWorker(WorkerId worker) {
  GiveUpAwaiting(worker);
  final_.erase(worker);
  expected_.erase(worker);
  const auto restored = restored_.find(worker);
  if (restored == restored_.end()) return;
  if (std::exchange(restored->second.is_claimed, true)) {
    restored_.erase(restored);
  } else {
    Expect(worker);
  }
}

void StateCollector::RemoveWorker(WorkerId worker) {
  GiveUpAwaiting(worker);
  final_.erase(worker);
  expected_.erase(worker);
  restored_.erase(worker);
}

}  // namespace capstan
