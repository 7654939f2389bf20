#include "server/coordinator/plans/job_manifest.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "server/coordinator/members/job_progress.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {
namespace {

// Over all servers' parts.
std::map<uint32_t, v1::WorkerSteps> StepsOfWorkers(
    const std::map<uint32_t, v1::CheckpointPart>& parts) {
  std::map<uint32_t, v1::WorkerSteps> steps;
  for (const auto& [server, part] : parts) {
    for (const v1::WorkerSteps& of_part : part.workers()) {
      const auto [known, is_new] = steps.try_emplace(of_part.worker(), of_part);
      v1::WorkerSteps& worker = known->second;
      worker.set_least(std::min(worker.least(), of_part.least()));
      worker.set_most(std::max(worker.most(), of_part.most()));
      worker.set_is_live(worker.is_live() && of_part.is_live());
    }
  }
  return steps;
}

// Why a server's part is not complete. Or it has files of shards that are not the server's own.
absl::Status CheckPart(const v1::JobView& view, uint32_t server, const v1::CheckpointPart& part) {
  const std::string name = MemberName({v1::HeartbeatRequest::SERVER, server});
  if (!part.error().empty()) {
    return absl::UnavailableError(absl::StrCat(name, ": ", part.error()));
  }
  for (const v1::ShardFile& file : part.files()) {
    const auto shard = static_cast<int64_t>(file.shard());
    const bool is_own = shard < view.server_of_shard_size() &&
                        view.server_of_shard(static_cast<int>(shard)) == server;
    if (is_own) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": expected the files of its own shards, got one of shard ", file.shard()));
  }
  return absl::OkStatus();
}

void AddWorkers(const std::map<uint32_t, v1::WorkerSteps>& steps, const JobFacts& facts,
                v1::CheckpointManifest& manifest) {
  std::optional<int64_t> slowest;
  int64_t least_of_all = std::numeric_limits<int64_t>::max();
  for (uint32_t id = 0; id < facts.members.workers().size(); ++id) {
    const auto found = steps.find(id);
    const v1::WorkerSteps known = found == steps.end() ? v1::WorkerSteps() : found->second;
    // A worker goes on at the first step that some slice lacks of it. But if it has replaced
    // another one between the cuts of two slices, the later cut has no step before that at which it
    // entered. In the place of one that was lost before the cut, a worker begins where no slice has
    // one of its steps.
    const int64_t entered = facts.members.workers()[id].first_step.value();
    const int64_t least =
        entered <= known.most() ? std::max(known.least(), entered) : known.least();
    const int64_t first_step = known.is_live() ? least : known.most();
    if (known.is_live()) slowest = std::min(slowest.value_or(first_step), first_step);
    least_of_all = std::min(least_of_all, first_step);
    v1::CheckpointWorker& worker = *manifest.add_workers();
    worker.set_first_step(first_step);
    *worker.mutable_progress() =
        known.is_live() ? ProgressAt(facts.ProgressOf(id), first_step) : facts.ProgressOf(id);
    worker.mutable_progress()->set_steps_done(first_step);
  }
  manifest.set_step(slowest.value_or(least_of_all));
  manifest.set_end_step(std::max(manifest.end_step(), manifest.step()));
}

}  // namespace

v1::CheckpointManifest ManifestOfJob(const JobFacts& facts, const std::vector<JobPlan*>& plans) {
  v1::CheckpointManifest manifest;
  manifest.set_steps_total(facts.LastStep());
  *manifest.mutable_job() = facts.job;
  *manifest.mutable_tables() = facts.tables.specs();
  manifest.set_own_arrays(facts.tables.own_arrays());
  *manifest.mutable_consistency() = facts.view.consistency();
  manifest.set_training_seconds(absl::ToDoubleSeconds(facts.training.TimeUntil(facts.clock.Now())));
  *manifest.mutable_replaced_workers() = facts.restored.manifest.replaced_workers();
  for (const v1::Progress& replaced : facts.members.replaced_workers()) {
    *manifest.add_replaced_workers() = replaced;
  }
  manifest.set_workers_lost(static_cast<uint32_t>(facts.WorkersLost()));
  manifest.set_has_other_bits(facts.has_other_bits);
  for (const JobPlan* plan : plans) plan->WriteToManifest(manifest);
  return manifest;
}

absl::Status AddParts(const std::map<uint32_t, v1::CheckpointPart>& parts, const JobFacts& facts,
                      v1::CheckpointManifest& manifest) {
  std::map<uint32_t, v1::ShardFile> files;
  for (const auto& [server, part] : parts) {
    RETURN_IF_ERROR(CheckPart(facts.view, server, part));
    manifest.set_end_step(std::max(manifest.end_step(), part.end_step()));
    for (const v1::ShardFile& file : part.files()) files[file.shard()] = file;
  }
  for (const auto& [shard, file] : files) *manifest.add_files() = file;
  AddWorkers(StepsOfWorkers(parts), facts, manifest);
  return absl::OkStatus();
}

}  // namespace capstan
