#include "server/shard/check_request.h"

#include <cstdint>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/exchange/collective.h"
#include "common/exchange/rates.h"
#include "common/job/optimizer_check.h"

namespace capstan {
namespace {

// INVALID_ARGUMENT: rows and gradient, or rows and pull, do not go together.
absl::Status CheckRows(const RowStep& step) {
  const bool has_gradient = step.push.has_value() && step.push->gradient.has_value();
  const uint32_t pushed = step.pushed_keys.rows;
  const uint32_t pulled = step.pulled_keys.rows;
  if (has_gradient != (pushed > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected rows with a gradient, and none in an empty push or without a push, "
                     "got ",
                     pushed, " rows"));
  }
  if (!step.pull.has_value() && pulled > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a pull with its rows, got ", pulled, " rows without a pull"));
  }
  return absl::OkStatus();
}

absl::Status CheckRates(const Rates& rates) {
  const double rate = rates.learning_rate.value_or(0);
  if (rate >= 0 && rate <= std::numeric_limits<float>::max()) {
    return CheckFraction("momentum", rates.momentum.value_or(0));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected a finite learning rate of 0 or more, got ", rate));
}

// OK for a request that is no step.
absl::Status CheckStep(const ExchangeRequest& request) {
  if (const auto* rows = std::get_if<RowStep>(&request.purpose)) RETURN_IF_ERROR(CheckRows(*rows));
  const StepPush* const push = PushOf(request);
  const StepPull* const pull = PullOf(request);
  if (IsStep(request) && push == nullptr && pull == nullptr) {
    return absl::InvalidArgumentError("expected a push, a pull or both, got neither");
  }
  if ((push != nullptr && push->step < Step(0)) || (pull != nullptr && pull->step < Step(0))) {
    return absl::InvalidArgumentError("expected steps from 0, got a negative one");
  }
  return push == nullptr ? absl::OkStatus() : CheckRates(push->rates);
}

absl::Status CheckFromFirstWorker(const ExchangeRequest& request, absl::string_view what) {
  const WorkerId worker = request.sender.worker;
  if (worker == WorkerId(0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "expected ", what, " from worker 0 only, got some from worker ", worker.value()));
}

absl::Status CheckCut(uint64_t cut) {
  if (cut > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("expected the state of a cut from 1 on, got cut 0");
}

absl::Status CheckPlaceOfPrograms(const CheckedSlice& slice) {
  if (slice.has_programs) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "expected the state of a program at the first slice of the job's first dense table");
}

}  // namespace

absl::Status CheckRequest(const ExchangeRequest& request, const CheckedSlice& slice) {
  if (std::holds_alternative<InitialValues>(request.purpose)) {
    if (slice.has_initial_from_worker) return CheckFromFirstWorker(request, "initial values");
    return absl::InvalidArgumentError(
        "got initial values, but those of this table do not come from worker 0");
  }
  if (std::holds_alternative<OptimizerState>(request.purpose)) {
    return CheckFromFirstWorker(request, "the optimizer's state");
  }
  if (const auto* table = std::get_if<TableState>(&request.purpose)) {
    RETURN_IF_ERROR(CheckFromFirstWorker(request, "the table's state"));
    return CheckCut(table->cut);
  }
  if (std::holds_alternative<Collective>(request.purpose) && request.slice != kCollectiveSlice) {
    return absl::InvalidArgumentError(
        "expected collective operations at the first slice of the job's first table");
  }
  if (const auto* state = std::get_if<WorkerState>(&request.purpose)) {
    return state->is_program ? CheckPlaceOfPrograms(slice) : CheckCut(state->cut);
  }
  if (const auto* pull = std::get_if<WorkerStatePull>(&request.purpose)) {
    return pull->is_program ? CheckPlaceOfPrograms(slice) : absl::OkStatus();
  }
  if (std::holds_alternative<ReplicaRecord>(request.purpose)) {
    return absl::InvalidArgumentError("expected no change of a copy: only servers send them");
  }
  if (std::holds_alternative<Probe>(request.purpose)) {
    return absl::InvalidArgumentError("expected no probe: the server answers it");
  }
  return CheckStep(request);
}

}  // namespace capstan
