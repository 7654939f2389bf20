#include "server/coordinator/saved_job.h"

#include <glog/logging.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/job/job_properties.h"
#include "common/routing/placement.h"

namespace capstan {
namespace {

using google::protobuf::util::MessageDifferencer;

// The first part of a saved job that does not fit the others; null: all fit.
const char* FindContradiction(const SavedJob& saved) {
  const v1::CoordinatorState& state = saved.state;
  const v1::JobView& view = state.view();
  const v1::ClusterSpec& cluster = saved.constants->job().cluster();
  const auto is_server = [&](uint32_t id) {
    return id < static_cast<uint32_t>(view.servers_size());
  };
  const auto is_member_count = [](int count, int of_state, uint32_t most) {
    return count == of_state && count >= 0 && static_cast<uint32_t>(count) <= most;
  };
  if (!is_member_count(view.servers_size(), state.servers_size(), cluster.num_servers())) {
    return "its servers";
  }
  if (!is_member_count(view.workers_size(), state.workers_size(), cluster.num_workers())) {
    return "its workers";
  }
  if (view.phase() == v1::PHASE_UNSPECIFIED) return "its phase";
  if (view.consistency().empty()) return "its consistency";
  const bool is_placed = view.epoch() > 0;
  const int shards = is_placed ? static_cast<int>(cluster.shard_count()) : 0;
  if (view.server_of_shard_size() != shards ||
      !std::all_of(view.server_of_shard().begin(), view.server_of_shard().end(), is_server)) {
    return "the servers of its shards";
  }
  const int copies = cluster.replicas() > 1 ? shards : 0;
  if (view.copies_size() != copies ||
      !std::all_of(view.copies().begin(), view.copies().end(),
                   [&](const v1::ShardCopy& copy) { return is_server(copy.server()); })) {
    return "the copies of its shards";
  }
  if (is_placed && saved.constants->tables().empty()) return "its tables";
  return nullptr;
}

}  // namespace

v1::CoordinatorState StateOfJob(const JobFacts& facts, const std::vector<JobPlan*>& plans) {
  v1::CoordinatorState state;
  *state.mutable_view() = facts.view;
  facts.members.WriteTo(state, facts.has_ended());
  state.set_has_other_bits(facts.has_other_bits);
  const absl::Duration training = facts.training.TimeUntil(facts.clock.Now());
  state.set_training_seconds(absl::ToDoubleSeconds(training));
  state.set_steps_announced(facts.training.steps_announced());
  for (const JobPlan* plan : plans) plan->WriteToState(state);
  if (facts.result.has_value()) *state.mutable_result() = *facts.result;
  return state;
}

v1::JobConstants ConstantsOfJob(const JobFacts& facts) {
  v1::JobConstants constants;
  *constants.mutable_job() = facts.job;
  constants.set_restore(facts.restored.path);
  *constants.mutable_restored() = facts.restored.manifest;
  *constants.mutable_tables() = facts.tables.specs();
  constants.set_own_arrays(facts.tables.own_arrays());
  constants.set_processes(facts.tables.processes());
  if (const auto& local_steps = facts.tables.local_steps(); local_steps.has_value()) {
    *constants.mutable_local_steps() = *local_steps;
  }
  return constants;
}

absl::Status CheckSavedJob(const SavedJob& saved, const v1::JobSpec& job) {
  if (!MessageDifferencer::Equals(saved.constants->job(), job)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "expected the state of this job, got that of job ", saved.constants->job().name(),
        ", or of this job with other settings; go on with the same job file and flags, or "
        "choose another folder"));
  }
  if (const char* const part = FindContradiction(saved)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a state of this version, got one in which ", part, " do not fit the rest"));
  }
  const RestorePoint restored = {saved.constants->restore(), saved.constants->restored()};
  return JobTables(job, restored)
      .Restore(*saved.constants, SliceBytes(saved.state.view().scheduler()));
}

void RestoreFacts(const SavedJob& saved, uint64_t version, JobFacts& facts) {
  const v1::CoordinatorState& state = saved.state;
  facts.view = state.view();
  facts.view.set_version(version);
  facts.members.Restore(state);
  facts.training.Restore(state, facts.clock.Now());
  facts.has_other_bits = state.has_other_bits();
  if (state.has_result()) facts.result = state.result();
  const uint64_t slice_bytes = SliceBytes(facts.view.scheduler());
  CHECK_EQ(facts.tables.Restore(*saved.constants, slice_bytes), absl::OkStatus());
  if (!facts.is_placed()) return;
  const ShardMap map(facts.tables.elements(), slice_bytes, facts.job.cluster().shard_count());
  facts.shard_bytes.assign(map.shard_bytes().begin(), map.shard_bytes().end());
}

}  // namespace capstan
