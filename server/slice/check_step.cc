#include "server/slice/check_step.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace capstan {

absl::Status CheckPush(const StepContext& slice, WorkerId worker, const CheckedPush& push) {
  if (slice.awaits_initial) {
    return absl::FailedPreconditionError(absl::StrCat(
        slice.name,
        ": expected no push before the initial values of worker 0; pull the values first"));
  }
  const Step step = push.step;
  if (const Step next = slice.steps.completed(worker); step != next) {
    return absl::FailedPreconditionError(absl::StrCat(slice.name, ": expected the push of step ",
                                                      next.value(), " of worker ", worker.value(),
                                                      ", got step ", step.value()));
  }
  if (push.base_version.has_value() && *push.base_version > slice.version) {
    return absl::InvalidArgumentError(
        absl::StrCat(slice.name, ": expected a gradient computed with version ", slice.version,
                     " or an older one, got ", *push.base_version,
                     "; send the version that came with the values"));
  }
  if (slice.IsHeldBack(step)) {
    return absl::UnavailableError(
        absl::StrCat(slice.name, ": a change of the consistency, or a checkpoint, from step ",
                     slice.held_from->value(), " on, or later, is being settled"));
  }
  if (slice.steps.min_step() >= slice.schedule.KeptUntil(step)) {
    // A late push of a worker that was declared dead belongs to no open step.
    if (!slice.schedule.AppliesWholeStep(step)) return absl::OkStatus();
  } else {
    // Kept pushes need bounded memory: a worker is at most one step ahead of the slowest.
    const Step open = std::max(slice.steps.min_step(), slice.schedule.FirstKept(step));
    if (step <= open + 1) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      slice.name, ": push of step ", step.value(), ", but step ", slice.steps.min_step().value(),
      " is open: under BSP expected that step or the next"));
}

absl::Status CheckPull(const StepContext& slice, WorkerId worker, const StepPull& pull,
                       const StepPush* push) {
  const Step completed = slice.steps.completed(worker);
  if (pull.step <= completed) return absl::OkStatus();
  if (push != nullptr && pull.step - push->step <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      slice.name, ": expected a pull of worker ", worker.value(), " at step ", completed.value(),
      " at most, because it has not pushed its update of that step, got step ", pull.step.value(),
      "; push the steps before it first"));
}

}  // namespace capstan
