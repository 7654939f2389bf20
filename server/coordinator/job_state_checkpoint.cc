// The part of JobState about checkpoints.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/coordinator/job_progress.h"
#include "server/coordinator/job_state.h"

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

}  // namespace

absl::StatusOr<uint64_t> JobState::RequestCheckpoint() {
  if (view_.phase() != v1::TRAINING) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job is in phase ", v1::Phase_Name(view_.phase()),
                     "; a checkpoint can be written while it is in TRAINING only"));
  }
  ASSIGN_OR_RETURN(const uint64_t number, checkpoint_.Request());
  if (SettleCheckpoint()) Publish();
  return number;
}

std::optional<absl::StatusOr<v1::CheckpointReply>> JobState::CheckpointReply(
    uint64_t number) const {
  auto reply = checkpoint_.Reply(number);
  if (reply.has_value() || !has_ended()) return reply;
  return absl::FailedPreconditionError("the job has ended before the checkpoint was complete");
}

CheckpointPlan::Training JobState::Training() const {
  CheckpointPlan::Training training;
  training.now = clock_.Now();
  training.steps_total = LastStep();
  training.has_ended =
      job_.stay() ? !members_.LowestLiveWorker().has_value() : view_.phase() != v1::TRAINING;
  training.steps_done = std::numeric_limits<int64_t>::max();
  for (uint32_t id = 0; id < members_.workers().size(); ++id) {
    const Member& worker = members_.workers()[id];
    if (!worker.is_live() || entering_.Contains(id)) continue;
    const int64_t steps_done = std::max(worker.first_step.value(), worker.progress.steps_done());
    training.steps_done = std::min(training.steps_done, steps_done);
  }
  const v1::ConsistencyPeriod& latest = consistency_.latest();
  training.is_bsp = latest.consistency().mode() == v1::ConsistencySpec::BSP &&
                    latest.first_step() <= training.steps_done;
  return training;
}

v1::Progress JobState::ProgressOf(uint32_t worker) const {
  const v1::Progress& progress = members_.workers()[worker].progress;
  if (restored_.path.empty()) return progress;
  return JoinedProgress(restored_.manifest.workers(static_cast<int>(worker)).progress(), progress);
}

bool JobState::SettleCheckpoint() {
  if (view_.phase() != v1::TRAINING && view_.phase() != v1::EVALUATING) return false;
  const size_t num_servers = members_.servers().size();
  // In a job that stays, an entering worker may begin another round, beyond LastStep, before all
  // servers know the checkpoint's step.
  if (!job_.stay() || entering_.is_empty()) {
    const CheckpointPlan::Training training = Training();
    checkpoint_.Begin(training);
    // Servers hold back for one of the two at a time.
    if (!consistency_.is_pending() && checkpoint_.BeginAgreeing()) return true;
    if (checkpoint_.ChooseStep(num_servers, training)) return true;
  }
  const std::map<uint32_t, v1::CheckpointPart>* parts = checkpoint_.EndedParts(num_servers);
  if (parts == nullptr) return false;
  const absl::StatusOr<v1::CheckpointManifest> manifest = Manifest(*parts);
  if (manifest.ok()) {
    checkpoint_.Publish(*manifest);
  } else {
    checkpoint_.Discard(manifest.status());
  }
  return true;
}

void JobState::EndCheckpointWork(const absl::StatusOr<std::string>& result) {
  if (has_ended()) return;
  const bool was_publishing = checkpoint_.is_publishing();
  checkpoint_.EndWork(result, clock_.Now());
  if (!result.ok()) {
    events_.emplace_back(
        absl::StrCat("a checkpoint has failed: ", result.status().message(), "; the job goes on"),
        std::nullopt, std::string(result.status().message()));
  } else if (was_publishing) {
    v1::CheckpointStatus status;
    checkpoint_.WriteTo(status);
    events_.emplace_back(absl::StrCat("the checkpoint of step ", status.step(), " is complete: ",
                                      status.newest(), result->empty() ? "" : "; but ", *result),
                         status.step(), *result);
  }
  SettleCheckpoint();
  Advance();
  Publish();
}

absl::StatusOr<v1::CheckpointManifest> JobState::Manifest(
    const std::map<uint32_t, v1::CheckpointPart>& parts) const {
  v1::CheckpointManifest manifest;
  manifest.set_steps_total(LastStep());
  *manifest.mutable_job() = job_;
  *manifest.mutable_job()->mutable_scheduler() = links_.scheduler();
  *manifest.mutable_tables() = tables_;
  manifest.set_own_arrays(own_arrays_);
  *manifest.mutable_consistency() = view_.consistency();
  manifest.set_training_seconds(absl::ToDoubleSeconds(TrainingTime()));
  if (auto_codecs_.is_lasting()) *manifest.mutable_auto_codecs() = auto_codecs_.choice();
  if (schedule_.has_ended()) *manifest.mutable_tuning() = schedule_.Report();
  std::map<uint32_t, v1::ShardFile> files;
  for (const auto& [server, part] : parts) {
    RETURN_IF_ERROR(CheckPart(view_, server, part));
    manifest.set_end_step(std::max(manifest.end_step(), part.end_step()));
    for (const v1::ShardFile& file : part.files()) files[file.shard()] = file;
  }
  for (const auto& [shard, file] : files) *manifest.add_files() = file;
  AddWorkers(StepsOfWorkers(parts), manifest);
  return manifest;
}

void JobState::AddWorkers(const std::map<uint32_t, v1::WorkerSteps>& steps,
                          v1::CheckpointManifest& manifest) const {
  std::optional<int64_t> slowest;
  int64_t least_of_all = std::numeric_limits<int64_t>::max();
  for (uint32_t id = 0; id < members_.workers().size(); ++id) {
    const auto found = steps.find(id);
    const v1::WorkerSteps known = found == steps.end() ? v1::WorkerSteps() : found->second;
    // A worker goes on at the first step that some slice lacks of it. But if it has replaced
    // another one between the cuts of two slices, the later cut has no step before that at which it
    // entered. In the place of one that was lost before the cut, a worker begins where no slice has
    // one of its steps.
    const int64_t entered = members_.workers()[id].first_step.value();
    const int64_t least =
        entered <= known.most() ? std::max(known.least(), entered) : known.least();
    const int64_t first_step = known.is_live() ? least : known.most();
    if (known.is_live()) slowest = std::min(slowest.value_or(first_step), first_step);
    least_of_all = std::min(least_of_all, first_step);
    v1::CheckpointWorker& worker = *manifest.add_workers();
    worker.set_first_step(first_step);
    *worker.mutable_progress() =
        known.is_live() ? ProgressAt(ProgressOf(id), first_step) : ProgressOf(id);
    worker.mutable_progress()->set_steps_done(first_step);
  }
  manifest.set_step(slowest.value_or(least_of_all));
  manifest.set_end_step(std::max(manifest.end_step(), manifest.step()));
  *manifest.mutable_replaced_workers() = restored_.manifest.replaced_workers();
  for (const v1::Progress& replaced : members_.replaced_workers()) {
    *manifest.add_replaced_workers() = replaced;
  }
  manifest.set_workers_lost(static_cast<uint32_t>(WorkersLost()));
  manifest.set_has_other_bits(has_other_bits_);
}

}  // namespace capstan
