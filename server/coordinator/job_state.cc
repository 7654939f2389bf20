#include "server/coordinator/job_state.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/ids.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/routing/placement.h"
#include "common/routing/table_check.h"
#include "server/coordinator/plans/job_manifest.h"

namespace capstan {
namespace {

constexpr Role kServer = v1::HeartbeatRequest::SERVER;
constexpr Role kWorker = v1::HeartbeatRequest::WORKER;

}  // namespace

JobState::JobState(v1::JobSpec job, const Clock& clock, std::optional<RestorePoint> restored,
                   uint64_t term)
    : facts_(std::move(job), clock, std::move(restored).value_or(RestorePoint())),
      registration_(facts_),
      entering_(facts_.members),
      held_(facts_.job, facts_.members),
      consistency_(facts_.job.consistency(), facts_.restored.manifest),
      devices_(facts_.restored.manifest, consistency_),
      output_(facts_.job),
      replicas_(facts_),
      losses_(facts_, replicas_),
      links_(facts_.job, facts_.restored.manifest, output_),
      schedule_(facts_.job, facts_.restored.manifest),
      auto_codecs_(facts_.job, facts_.restored.manifest, links_.report()),
      checkpoint_(facts_.job.checkpoint(), facts_.restored, consistency_,
                  [this] { return ManifestOfJob(facts_, plans_); }),
      plans_({&devices_, &entering_, &consistency_, &held_, &output_, &links_, &schedule_,
              &auto_codecs_, &checkpoint_, &replicas_, &losses_}) {
  if (!facts_.restored.is_empty()) {
    const int64_t step = facts_.restored.manifest.step();
    events_.emplace_back(
        absl::StrCat("the job goes on from step ", step, ": ", facts_.restored.path), step);
    facts_.view.set_restored_step(std::max<int64_t>(step, 1));
  }
  facts_.view.set_version(FirstVersionOf(term));
  EnterPhase(v1::REGISTERING);
  Publish();
}

void JobState::GoOn(const SavedJob& saved) {
  const uint64_t version = view().version();
  RestoreFacts(saved, version, facts_);
  for (JobPlan* plan : plans_) plan->Restore(saved.state, facts_);
  // Whatever members have done, they report it again with a view of this coordinator.
  facts_.phase_version = facts_.placement_version = death_version_ = version + 1;
  events_.clear();
  events_.emplace_back(
      absl::StrCat("this coordinator has taken over in phase ", v1::Phase_Name(view().phase())));
  // The file of --output has been made again: the servers write all of it.
  if (view().phase() == v1::SAVING) BeginEpoch();
  Publish();
}

absl::StatusOr<uint32_t> JobState::RegisterWorker(const v1::RegisterWorkerRequest& request) {
  if (view().holds_places() && !request.is_replaceable()) {
    return absl::InvalidArgumentError(
        "expected a worker whose steps can be done again (replaceable), as all others of this job "
        "have said; say so, too");
  }
  const absl::StatusOr<Registration::Place> place =
      registration_.AddWorker(request, SliceBytes(links_.scheduler()), events_);
  if (place.ok()) held_.NoteWorker(request);
  return Welcome(place);
}

absl::StatusOr<uint32_t> JobState::Welcome(const absl::StatusOr<Registration::Place>& place) {
  RETURN_IF_ERROR(place.status());
  if (place->kind == Registration::Place::Kind::kKnown) return place->id;
  if (place->kind == Registration::Place::Kind::kOfDeadWorker) {
    held_.Release(place->id);
    entering_.Await(place->id);
  } else {
    Settle();
  }
  Publish();
  return place->id;
}

absl::Status JobState::CheckMember(MemberKey member, Incarnation incarnation) {
  return facts_.members.Find(member, incarnation).status();
}

absl::Status JobState::Heartbeat(const v1::HeartbeatRequest& request) {
  ASSIGN_OR_RETURN(Member * member, facts_.members.Find({request.role(), request.id()},
                                                        Incarnation(request.incarnation())));
  const bool is_part = request.part() > 0;
  if (request.part() > kMostWorkerParts || (is_part && request.role() != kWorker)) {
    return absl::InvalidArgumentError(absl::StrCat("heartbeat has part ", request.part(),
                                                   ": expected 0, or of a worker at most ",
                                                   kMostWorkerParts));
  }
  if (const uint64_t version = std::max(request.view_version(), request.received_version());
      version > view().version()) {
    return absl::InvalidArgumentError(
        absl::StrCat("heartbeat has view_version ", version, ", the newest is ", view().version(),
                     "; send the version of the newest view received"));
  }
  if (has_ended() || is_part) return absl::OkStatus();
  if (request.role() == kWorker) TakeSteps(request.id(), request.progress());
  member->Update(request);
  const bool is_of_old_placement =
      request.role() == kServer && request.view_version() < facts_.placement_version;
  for (JobPlan* plan : plans_) {
    if (!is_of_old_placement || plan == &replicas_) RETURN_IF_ERROR(plan->Report(request));
  }
  if (Settle()) Publish();
  if (request.is_leaving()) {
    request.role() == kServer ? LeaveServer(request.id()) : Leave(request.id());
  }
  return absl::OkStatus();
}

void JobState::TakeSteps(uint32_t worker, const v1::Progress& progress) {
  TrainingProgress& training = facts_.training;
  const int64_t steps = progress.steps_total();
  const absl::Status fits = progress.ends_early() ? training.ReportEarlyEnd(worker, steps)
                                                  : training.ReportSteps(worker, steps);
  training.NoteTimeOfWorker(absl::Seconds(progress.seconds()), facts_.clock.Now());
  if (training.steps_total() != view().steps_total()) {
    ++change_;
    facts_.view.set_steps_total(training.steps_total());
    if (training.steps_announced() > 0) {
      events_.emplace_back(
          absl::StrCat("the workers have agreed to end after ", training.steps_total(), " of the ",
                       training.steps_announced(), " steps"),
          training.steps_total());
    }
    // A program, or the end of a stream, may tell it late. The others must know how far it went.
    const v1::ModelSpec& model = facts_.job.model();
    const bool may_be_late = model.type() == v1::ModelSpec::PROGRAM || LearnsFromStream(model);
    if (may_be_late) Publish();
  }
  if (!fits.ok()) Fail(fits.message());
}

absl::Status JobState::ReportFailure(const v1::ReportFailureRequest& request) {
  if (request.before_registering()) {
    RETURN_IF_ERROR(CheckRole(request.role()));
  } else {
    ASSIGN_OR_RETURN(const Member* member, facts_.members.Find({request.role(), request.id()},
                                                               Incarnation(request.incarnation())));
    if (request.came_after_end() && member->entered_late) {
      Leave(request.id(), /*came_after_end=*/true);
      return absl::OkStatus();
    }
    if (request.role() == kServer && GoesOnWithoutServer(request.id())) {
      const std::string reason =
          request.reason().empty() ? "it does not say why" : CutText(request.reason());
      EndServer(request.id(), {"has failed", absl::StrCat("has failed: ", reason), reason});
      return absl::OkStatus();
    }
  }
  Take(LossByFailure(request, facts_));
  return absl::OkStatus();
}

absl::Status JobState::ReportResult(const v1::ReportResultRequest& request) {
  const MemberKey key{kWorker, request.worker()};
  RETURN_IF_ERROR(facts_.members.Find(key, Incarnation(request.incarnation())).status());
  const bool is_evaluated = facts_.has_trained() || view().phase() == v1::DONE;
  if (!is_evaluated || request.worker() != view().evaluator()) {
    return absl::FailedPreconditionError(
        absl::StrCat(MemberName(key), " reported a result, but the job is in phase ",
                     v1::Phase_Name(view().phase()),
                     is_evaluated ? absl::StrCat(" with worker ", view().evaluator()) : "",
                     "; only the evaluator of phase EVALUATING may"));
  }
  // It may be told again. The phase stays while the last checkpoint is being written.
  if (view().phase() != v1::EVALUATING || facts_.result.has_value()) return absl::OkStatus();
  facts_.result = request;
  ++change_;
  const bool has_checkpoint = checkpoint_.Settle(facts_, events_);
  if (Advance() || has_checkpoint) Publish();
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> JobState::BeginConsistencyChange(
    const v1::SetConsistencyRequest& request) {
  if (view().phase() != v1::TRAINING) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job is in phase ", v1::Phase_Name(view().phase()),
                     "; its consistency can be changed while it is in TRAINING only"));
  }
  RETURN_IF_ERROR(held_.CheckNoneIsHeld());
  RETURN_IF_ERROR(facts_.tables.CheckChange(request.change()));
  ASSIGN_OR_RETURN(const uint64_t number, consistency_.Begin(request, facts_.tables.specs()));
  Publish();
  return number;
}

std::optional<absl::StatusOr<v1::SetConsistencyReply>> JobState::ConsistencyReply(
    uint64_t change) const {
  if (const v1::ConsistencyPeriod* period = consistency_.Find(change)) {
    v1::SetConsistencyReply reply;
    *reply.mutable_period() = *period;
    reply.set_steps_total(facts_.LastStep());
    return reply;
  }
  if (!has_ended()) return std::nullopt;
  return absl::FailedPreconditionError("the job has ended before the change could begin");
}

absl::StatusOr<uint64_t> JobState::RequestCheckpoint() {
  if (view().phase() != v1::TRAINING) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job is in phase ", v1::Phase_Name(view().phase()),
                     "; a checkpoint can be written while it is in TRAINING only"));
  }
  ASSIGN_OR_RETURN(const uint64_t number, checkpoint_.Request());
  if (checkpoint_.Settle(facts_, events_)) Publish();
  return number;
}

std::optional<absl::StatusOr<v1::CheckpointReply>> JobState::CheckpointReply(
    uint64_t number) const {
  auto reply = checkpoint_.Reply(number);
  if (reply.has_value() || !has_ended()) return reply;
  return absl::FailedPreconditionError("the job has ended before the checkpoint was complete");
}

void JobState::EndCheckpointWork(const absl::StatusOr<std::string>& result) {
  if (has_ended()) return;
  checkpoint_.EndWork(result, facts_, events_);
  checkpoint_.Settle(facts_, events_);
  Advance();
  Publish();
}

void JobState::EndFileWork(const absl::Status& result) {
  if (has_ended()) return;
  if (!result.ok()) return Fail(absl::StrCat("--output: ", result.message()));
  output_.EndWork();
  if (view().phase() == v1::SAVING) {
    EnterPhase(v1::DONE);
  } else {
    Settle();
  }
  Publish();
}

void JobState::Fail(absl::string_view reason) {
  if (has_ended()) return;
  facts_.view.set_reason(
      CutText(PrintableText(absl::StrReplaceAll(reason, {{"\r", ""}, {"\n", " "}}))));
  EnterPhase(v1::FAILED);
  Publish();
}

bool JobState::Settle() {
  bool has_news = false;
  for (JobPlan* plan : plans_) has_news |= plan->Settle(facts_, events_);
  return Advance() || has_news;
}

bool JobState::Advance() {
  const MemberRegistry& members = facts_.members;
  if (view().phase() == v1::REGISTERING && members.is_complete() && links_.has_settled()) {
    Place();
    EnterPhase(v1::PLACING);
    return true;
  }
  if (view().phase() == v1::PLACING && members.ServersHaveSeen(facts_.phase_version)) {
    EnterPhase(v1::TRAINING);
    return true;
  }
  // Servers that have not heard of a death may still apply an update of the dead worker.
  if (view().phase() == v1::TRAINING && !facts_.job.stay() && members.LiveWorkersHaveFinished() &&
      members.ServersHaveSeen(death_version_)) {
    facts_.view.set_evaluator(*members.LowestLiveWorker());
    EnterPhase(v1::EVALUATING);
    return true;
  }
  // The last checkpoint may still be being written.
  if (view().phase() == v1::EVALUATING && facts_.result.has_value() &&
      !checkpoint_.IsBusy(facts_)) {
    EnterPhase(output_.is_wanted() ? v1::SAVING : v1::DONE);
    return true;
  }
  return false;
}

void JobState::Place() {
  const v1::SchedulerSpec& scheduler = links_.scheduler();
  const std::vector<uint64_t>& elements = facts_.tables.elements();
  const ShardMap map(elements, SliceBytes(scheduler), facts_.job.cluster().shard_count());
  facts_.shard_bytes.assign(map.shard_bytes().begin(), map.shard_bytes().end());
  *facts_.view.mutable_scheduler() = scheduler;
  const auto num_servers = static_cast<int>(facts_.members.servers().size());
  for (const ServerId server : PlaceShards(map.shard_bytes(), num_servers)) {
    facts_.view.add_server_of_shard(server.value());
  }
  facts_.view.set_own_arrays(facts_.tables.own_arrays());
  if (const auto& local_steps = facts_.tables.local_steps(); local_steps.has_value()) {
    *facts_.view.mutable_local_steps() = *local_steps;
  }
  BeginEpoch();
  for (JobPlan* plan : plans_) plan->OnPlacement(facts_);
  std::string warning = WarningOfLostRows(facts_.job, facts_.tables.specs());
  if (!warning.empty()) events_.emplace_back(std::move(warning));
}

void JobState::BeginEpoch() {
  facts_.view.set_epoch(view().epoch() + 1);
  facts_.placement_version = view().version() + 1;
}

void JobState::EnterPhase(v1::Phase phase) {
  if (view().phase() == v1::TRAINING) facts_.training.End(facts_.clock.Now());
  if (phase == v1::TRAINING) facts_.training.Begin(facts_.clock.Now());
  facts_.view.set_phase(phase);
  facts_.phase_version = view().version() + 1;
  events_.emplace_back(absl::StrCat("phase ", v1::Phase_Name(phase),
                                    phase == v1::FAILED ? ": " : "", view().reason()),
                       std::nullopt, view().reason());
}

void JobState::Publish() {
  ++change_;
  facts_.view.set_version(view().version() + 1);
  facts_.members.WriteTo(facts_.view);
  for (const JobPlan* plan : plans_) plan->WriteToView(facts_.view);
}

v1::GetStatusReply JobState::Status(bool with_tables) const {
  v1::GetStatusReply status;
  *status.mutable_view() = with_tables ? facts_.ViewWithTables() : view();
  const MemberRegistry& members = facts_.members;
  const auto workers = static_cast<uint32_t>(members.workers().size());
  for (uint32_t id = 0; id < workers; ++id) *status.add_progress() = facts_.ProgressOf(id);
  *status.mutable_replaced_workers() = facts_.restored.manifest.replaced_workers();
  status.mutable_replaced_workers()->Add(members.replaced_workers().begin(),
                                         members.replaced_workers().end());
  for (const Member& server : members.servers()) *status.add_load_of_server() = server.load;
  if (view().epoch() > 0) {
    status.mutable_bytes_of_server()->Resize(static_cast<int>(members.servers().size()), 0);
  }
  for (int shard = 0; shard < view().server_of_shard_size(); ++shard) {
    const auto server = static_cast<int>(view().server_of_shard(shard));
    status.mutable_bytes_of_server()->at(server) += facts_.shard_bytes[shard];
  }
  const v1::JobSpec& job = facts_.job;
  status.set_job_name(job.name());
  status.set_num_servers(job.cluster().num_servers());
  status.set_num_workers(job.cluster().num_workers());
  if (HasCodec(job.codec())) *status.mutable_codec() = job.codec();
  for (const JobPlan* plan : plans_) plan->WriteToStatus(status);
  return status;
}

JobOutcome JobState::Outcome() const {
  JobOutcome outcome;
  if (view().phase() == v1::FAILED) outcome.status = absl::AbortedError(view().reason());
  outcome.last_status = Status();
  outcome.result = facts_.result.value_or(v1::ReportResultRequest());
  outcome.training_time = facts_.training.TimeUntil(facts_.clock.Now());
  outcome.workers_lost = facts_.WorkersLost();
  outcome.device_notes = devices_.notes();
  outcome.has_other_bits = facts_.has_other_bits;
  return outcome;
}

}  // namespace capstan
