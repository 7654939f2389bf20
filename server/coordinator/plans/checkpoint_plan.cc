#include "server/coordinator/plans/checkpoint_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/plans/job_manifest.h"

namespace capstan {

CheckpointPlan::CheckpointPlan(const v1::CheckpointSpec& spec, const RestorePoint& restored,
                               const ConsistencyPlan& consistency,
                               std::function<v1::CheckpointManifest()> manifest_of_job)
    : restored_(restored),
      consistency_(consistency),
      manifest_of_job_(std::move(manifest_of_job)),
      cycle_(spec, restored.manifest.step()) {}

void CheckpointPlan::EndWork(const absl::StatusOr<std::string>& result, const JobFacts& facts,
                             JobEvents& events) {
  const bool was_publishing = cycle_.is_publishing();
  cycle_.EndWork(result, facts.clock.Now());
  if (!result.ok()) {
    events.emplace_back(
        absl::StrCat("a checkpoint has failed: ", result.status().message(), "; the job goes on"),
        std::nullopt, std::string(result.status().message()));
  } else if (was_publishing) {
    v1::CheckpointStatus status;
    cycle_.WriteTo(status);
    events.emplace_back(absl::StrCat("the checkpoint of step ", status.step(), " is complete: ",
                                     status.newest(), result->empty() ? "" : "; but ", *result),
                        status.step(), *result);
  }
}

std::string CheckpointPlan::newest() const {
  v1::CheckpointStatus status;
  cycle_.WriteTo(status);
  return status.newest();
}

absl::Status CheckpointPlan::Report(const v1::HeartbeatRequest& heartbeat) {
  if (heartbeat.role() != v1::HeartbeatRequest::SERVER) return absl::OkStatus();
  return cycle_.Report(heartbeat.id(), heartbeat.checkpoint());
}

void CheckpointPlan::OnServerLost(const LostServer& change, const JobFacts&) {
  cycle_.NoteLostServer(change.server, change.moves_shards);
}

CheckpointCycle::Training CheckpointPlan::TrainingOf(const JobFacts& facts) const {
  CheckpointCycle::Training training;
  training.now = facts.clock.Now();
  training.steps_total = facts.LastStep();
  training.has_ended = facts.job.stay() ? !facts.members.LowestLiveWorker().has_value()
                                        : facts.view.phase() != v1::TRAINING;
  training.steps_done = std::numeric_limits<int64_t>::max();
  for (const Member& worker : facts.members.workers()) {
    if (!worker.is_live() || worker.is_entering) continue;
    const int64_t steps_done = std::max(worker.first_step.value(), worker.progress.steps_done());
    training.steps_done = std::min(training.steps_done, steps_done);
  }
  const v1::ConsistencyPeriod& latest = consistency_.latest();
  training.is_bsp = latest.consistency().mode() == v1::ConsistencySpec::BSP &&
                    latest.first_step() <= training.steps_done;
  return training;
}

bool CheckpointPlan::Settle(const JobFacts& facts, JobEvents&) {
  if (facts.view.phase() != v1::TRAINING && facts.view.phase() != v1::EVALUATING) return false;
  const size_t num_servers = facts.members.LiveServerCount();
  bool leaves_step = false;
  // In a job that stays, an entering worker may begin another round, beyond LastStep, before all
  // servers know the checkpoint's step.
  if (!facts.job.stay() || !facts.members.HasEnteringWorkers()) {
    const CheckpointCycle::Training training = TrainingOf(facts);
    if (!facts.job.stay()) leaves_step = cycle_.LeaveStepBeyondEnd(training);
    cycle_.Begin(training);
    // Servers hold back for one of the two at a time.
    if (!consistency_.is_pending() && cycle_.BeginAgreeing()) return true;
    if (cycle_.ChooseStep(num_servers, training)) return true;
  }
  const std::map<uint32_t, v1::CheckpointPart>* parts = cycle_.EndedParts(num_servers);
  if (parts == nullptr) return leaves_step;
  v1::CheckpointManifest manifest = manifest_of_job_();
  if (const absl::Status complete = AddParts(*parts, facts, manifest); complete.ok()) {
    cycle_.Publish(std::move(manifest));
  } else {
    cycle_.Discard(complete);
  }
  return true;
}

void CheckpointPlan::WriteToView(v1::JobView& view) const {
  cycle_.WriteTo(view);
  if (cycle_.is_agreeing()) view.set_consistency_change(0);
}

void CheckpointPlan::WriteToStatus(v1::GetStatusReply& status) const {
  cycle_.WriteTo(*status.mutable_checkpoint());
  status.mutable_checkpoint()->set_restored(restored_.path);
  status.mutable_checkpoint()->set_restored_step(restored_.manifest.step());
}

}  // namespace capstan
