#include "server/coordinator/plans/consistency_plan.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/job/validate_job.h"

namespace capstan {
namespace {

using google::protobuf::util::MessageDifferencer;

// A staleness without a mode is for the mode that counts already.
absl::Status CheckMode(const v1::ConsistencyPeriod& latest, const v1::ConsistencySpec& change) {
  const bool has_staleness = change.has_staleness() || !change.table_staleness().empty();
  if (change.has_mode() || !has_staleness ||
      latest.consistency().mode() == v1::ConsistencySpec::SSP) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a staleness is for consistency ssp only, but from step ", latest.first_step(), " on ",
      ConsistencyText(latest.consistency()), " counts; add --consistency=ssp to change that too"));
}

absl::StatusOr<v1::ConsistencySpec> Changed(const v1::ConsistencyPeriod& latest,
                                            const v1::SetConsistencyRequest& request,
                                            const TableSpecs& tables) {
  const v1::ConsistencySpec& change = request.change();
  if (change.has_check_finite() || change.has_update_scale()) {
    return absl::InvalidArgumentError(
        "consistency.check_finite and update_scale cannot be changed while the job runs");
  }
  const bool has_tables = request.clear_table_staleness() || !change.table_staleness().empty();
  if (!change.has_mode() && !change.has_staleness() && !has_tables) {
    return absl::InvalidArgumentError(
        "expected a mode, a staleness or the staleness of tables to change to, got nothing");
  }
  RETURN_IF_ERROR(CheckMode(latest, change));
  v1::ConsistencySpec consistency = latest.consistency();
  if (change.has_mode() && change.mode() != v1::ConsistencySpec::SSP) {
    consistency.clear_staleness();
    consistency.clear_table_staleness();
  }
  if (has_tables) consistency.clear_table_staleness();
  consistency.MergeFrom(change);
  RETURN_IF_ERROR(ValidateConsistency(consistency));
  RETURN_IF_ERROR(CheckTableStaleness(consistency, tables));
  v1::JobSpec job;
  *job.mutable_consistency() = consistency;
  RETURN_IF_ERROR(CheckMeanTables(job, tables, /*slice_bytes=*/0));
  return consistency;
}

}  // namespace

ConsistencyPlan::ConsistencyPlan(const v1::ConsistencySpec& consistency,
                                 const v1::CheckpointManifest& restored)
    : periods_(restored.consistency().begin(), restored.consistency().end()) {
  if (!periods_.empty() &&
      MessageDifferencer::Equivalent(restored.job().consistency(), consistency)) {
    return;
  }
  // A change that nobody has got to does not count any more.
  while (periods_.size() > 1 && latest().first_step() >= restored.end_step()) periods_.pop_back();
  int64_t first_step = 0;
  if (!periods_.empty()) first_step = std::max(restored.end_step(), latest().first_step() + 1);
  v1::ConsistencyPeriod& period = periods_.emplace_back();
  period.set_first_step(first_step);
  *period.mutable_consistency() = consistency;
}

absl::StatusOr<uint64_t> ConsistencyPlan::Begin(const v1::SetConsistencyRequest& request,
                                                const TableSpecs& tables) {
  ASSIGN_OR_RETURN(v1::ConsistencySpec consistency, Changed(latest(), request, tables));
  if (pending_.has_value()) {
    if (MessageDifferencer::Equals(*pending_, consistency)) return pending_number();
    return absl::FailedPreconditionError(
        "another change of the consistency is under way; try again when it is done");
  }
  if (MessageDifferencer::Equals(latest().consistency(), consistency)) return periods_.size() - 1;
  pending_ = std::move(consistency);
  held_from_.clear();
  return pending_number();
}

absl::Status ConsistencyPlan::Report(const v1::HeartbeatRequest& heartbeat) {
  if (heartbeat.role() != v1::HeartbeatRequest::SERVER) return absl::OkStatus();
  const v1::HeldStep& held = heartbeat.held_step();
  if (!pending_.has_value() || held.consistency_change() != pending_number()) {
    return absl::OkStatus();
  }
  if (held.step() < 0 || Step(held.step()) > kLargestStep) {
    return absl::InvalidArgumentError(
        absl::StrCat("held_step of server-", heartbeat.id(), ": expected a step from 0 to ",
                     kLargestStep.value(), ", got ", held.step(),
                     "; send the first step that nobody has asked for"));
  }
  held_from_[heartbeat.id()] = Step(held.step());
  return absl::OkStatus();
}

bool ConsistencyPlan::Settle(const JobFacts& facts, JobEvents& events) {
  if (!pending_.has_value() || held_from_.size() < facts.members.LiveServerCount()) return false;
  Step first_step = Step(latest().first_step()) + 1;
  for (const auto& [server, step] : held_from_) first_step = std::max(first_step, step);
  v1::ConsistencyPeriod& period = periods_.emplace_back();
  period.set_first_step(first_step.value());
  *period.mutable_consistency() = *std::move(pending_);
  pending_.reset();
  events.emplace_back(absl::StrCat("from step ", period.first_step(), " on: consistency ",
                                   ConsistencyText(period.consistency())),
                      period.first_step());
  return true;
}

const v1::ConsistencyPeriod* ConsistencyPlan::Find(uint64_t change) const {
  return change < periods_.size() ? &periods_[change] : nullptr;
}

void ConsistencyPlan::WriteToView(v1::JobView& view) const {
  view.mutable_consistency()->Assign(periods_.begin(), periods_.end());
  view.set_consistency_change(pending_.has_value() ? pending_number() : 0);
}

void ConsistencyPlan::WriteToState(v1::CoordinatorState& state) const {
  if (pending_.has_value()) *state.mutable_pending_consistency() = *pending_;
}

void ConsistencyPlan::Restore(const v1::CoordinatorState& state, const JobFacts&) {
  const auto& periods = state.view().consistency();
  periods_.assign(periods.begin(), periods.end());
  // Servers still hold back for it, and report it again.
  if (state.has_pending_consistency()) pending_ = state.pending_consistency();
}

}  // namespace capstan
