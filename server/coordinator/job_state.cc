#include "server/coordinator/job_state.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/ids.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/routing/placement.h"
#include "common/routing/routing_table.h"
#include "common/routing/table_check.h"

namespace capstan {
namespace {

constexpr Role kServer = v1::HeartbeatRequest::SERVER;
constexpr Role kWorker = v1::HeartbeatRequest::WORKER;

// A version that no view has.
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

absl::Duration RegistrationTime(const v1::MembershipSpec& membership) {
  if (membership.registration_seconds() == 0) return absl::InfiniteDuration();
  return absl::Seconds(membership.registration_seconds());
}

}  // namespace

JobState::JobState(v1::JobSpec job, const Clock& clock, std::optional<RestorePoint> restored)
    : job_(std::move(job)),
      restored_(restored.has_value() ? *std::move(restored) : RestorePoint()),
      clock_(clock),
      members_(job_.cluster().num_servers(), job_.cluster().num_workers()),
      registration_deadline_(clock_.Now() + RegistrationTime(job_.membership())),
      consistency_(job_.consistency(), restored_.manifest),
      links_(job_, restored_.manifest),
      auto_codecs_(job_, restored_.manifest),
      schedule_(job_, restored_.manifest),
      output_(job_),
      checkpoint_(job_.checkpoint(), restored_.manifest.step()),
      devices_(restored_.manifest),
      has_other_bits_(restored_.manifest.has_other_bits()),
      training_time_(absl::Seconds(restored_.manifest.training_seconds())) {
  if (!restored_.path.empty()) {
    events_.emplace_back(
        absl::StrCat("the job goes on from step ", restored_.manifest.step(), ": ", restored_.path),
        restored_.manifest.step());
    view_.set_restored_step(std::max<int64_t>(restored_.manifest.step(), 1));
  }
  EnterPhase(v1::REGISTERING);
  Publish();
}

absl::Status JobState::Heartbeat(const v1::HeartbeatRequest& request) {
  ASSIGN_OR_RETURN(Member * member, members_.Find({request.role(), request.id()},
                                                  Incarnation(request.incarnation())));
  if (const uint64_t version = std::max(request.view_version(), request.received_version());
      version > view_.version()) {
    return absl::InvalidArgumentError(
        absl::StrCat("heartbeat has view_version ", version, ", the newest is ", view_.version(),
                     "; send the version of the newest view received"));
  }
  if (has_ended()) return absl::OkStatus();
  if (request.role() == kWorker) {
    CheckStepsTotal(request);
    NoteDevice(request.id(), request.progress());
  }
  if (request.role() == kWorker && request.has_links()) {
    links_.Report(request.id(), request.links());
  }
  // An older heartbeat may arrive after a newer one.
  member->view_version = std::max(member->view_version, request.view_version());
  if (request.has_progress() && request.progress().steps_done() >= member->progress.steps_done()) {
    member->progress = request.progress();
    member->progress.set_device(CutText(member->progress.device()));
    member->progress.set_transport(CutText(member->progress.transport()));
  }
  for (const v1::NextStep& next_step : request.next_steps()) {
    if (request.role() == kServer) entering_.Report(request.id(), next_step);
  }
  if (request.role() == kServer) {
    if (request.load().seconds() >= member->load.seconds()) member->load = request.load();
    RETURN_IF_ERROR(consistency_.Report(request.id(), request.held_step()));
    RETURN_IF_ERROR(checkpoint_.Report(request.id(), request.checkpoint()));
  }
  const bool has_entered = EnterWorkers();
  const bool has_changed = SettleConsistency();
  const bool has_schedule = SettleSchedule();
  const bool has_codecs = SettleAutoCodecs();
  const bool has_checkpoint = SettleCheckpoint();
  if (Advance() || has_entered || has_changed || has_schedule || has_codecs || has_checkpoint) {
    Publish();
  }
  if (request.role() == kWorker && request.is_leaving()) Leave(request.id());
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> JobState::BeginConsistencyChange(
    const v1::SetConsistencyRequest& request) {
  if (view_.phase() != v1::TRAINING) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job is in phase ", v1::Phase_Name(view_.phase()),
                     "; its consistency can be changed while it is in TRAINING only"));
  }
  ASSIGN_OR_RETURN(const uint64_t number, consistency_.Begin(request, tables_));
  Publish();
  return number;
}

bool JobState::SettleConsistency() {
  if (!consistency_.Settle(members_.servers().size())) return false;
  const v1::ConsistencyPeriod& period = consistency_.latest();
  events_.emplace_back(absl::StrCat("from step ", period.first_step(), " on: consistency ",
                                    ConsistencyText(period.consistency())),
                       period.first_step());
  return true;
}

std::vector<const v1::Progress*> JobState::Computing() const {
  std::vector<const v1::Progress*> computing;
  for (uint32_t id = 0; id < members_.workers().size(); ++id) {
    const Member& worker = members_.workers()[id];
    if (!worker.is_live() || entering_.Contains(id) || HasFinished(worker.progress)) continue;
    computing.push_back(&worker.progress);
  }
  return computing;
}

bool JobState::SettleSchedule() {
  if (view_.phase() != v1::TRAINING || !schedule_.Settle(Computing())) return false;
  events_.push_back(schedule_.LatestText());
  return true;
}

bool JobState::SettleAutoCodecs() {
  const bool is_training = view_.phase() == v1::TRAINING;
  if (!is_training || !auto_codecs_.Settle(links_.report(), Computing())) return false;
  events_.push_back(absl::StrCat("auto codecs: ", auto_codecs_.choice().text()));
  return true;
}

std::optional<absl::StatusOr<v1::SetConsistencyReply>> JobState::ConsistencyReply(
    uint64_t change) const {
  if (const v1::ConsistencyPeriod* period = consistency_.Find(change)) {
    v1::SetConsistencyReply reply;
    *reply.mutable_period() = *period;
    reply.set_steps_total(LastStep());
    return reply;
  }
  if (!has_ended()) return std::nullopt;
  return absl::FailedPreconditionError("the job has ended before the change could begin");
}

void JobState::CheckStepsTotal(const v1::HeartbeatRequest& request) {
  const int64_t steps = request.progress().steps_total();
  if (steps == 0) return;
  if (steps_total_ == 0) {
    steps_total_ = steps;
    view_.set_steps_total(steps);
    // A program, or the end of a stream, may tell it late. The others must know how far it went.
    const bool may_be_late = job_.model().type() == v1::ModelSpec::PROGRAM ||  //
                             LearnsFromStream(job_.model());
    if (may_be_late) Publish();
  }
  if (!job_.stay() && steps < restored_.manifest.end_step()) {
    return Fail(absl::StrCat("--steps or --epochs: expected at least the ",
                             restored_.manifest.end_step(), " steps that are in ", restored_.path,
                             ", got ", steps));
  }
  const bool has_same_rounds = job_.stay() && steps_total_ > 0 && steps % steps_total_ == 0;
  if (steps == steps_total_ || has_same_rounds) return;
  Fail(absl::StrCat(MemberName({kWorker, request.id()}), " has ", steps,
                    " steps to do, the others ", steps_total_,
                    ": expected the same data on every worker"));
}

void JobState::NoteDevice(uint32_t worker, const v1::Progress& progress) {
  const bool is_bsp = consistency_.latest().consistency().mode() == v1::ConsistencySpec::BSP;
  const std::string note = devices_.Report(worker, progress.device(), is_bsp);
  if (!note.empty()) events_.push_back(note);
}

int64_t JobState::LastStep() const {
  return EndStep(job_, steps_total_, latest_first_step_.value());
}

absl::Status JobState::ReportResult(const v1::ReportResultRequest& request) {
  const MemberKey key{kWorker, request.worker()};
  RETURN_IF_ERROR(members_.Find(key, Incarnation(request.incarnation())).status());
  const bool is_evaluated = has_trained() || view_.phase() == v1::DONE;
  if (!is_evaluated || request.worker() != view_.evaluator()) {
    return absl::FailedPreconditionError(
        absl::StrCat(MemberName(key), " reported a result, but the job is in phase ",
                     v1::Phase_Name(view_.phase()),
                     is_evaluated ? absl::StrCat(" with worker ", view_.evaluator()) : "",
                     "; only the evaluator of phase EVALUATING may"));
  }
  // It may be told again. The phase stays while the last checkpoint is being written.
  if (view_.phase() != v1::EVALUATING || result_.has_value()) return absl::OkStatus();
  result_ = request;
  const bool has_checkpoint = SettleCheckpoint();
  if (Finish() || has_checkpoint) Publish();
  return absl::OkStatus();
}

bool JobState::HasSettledLinks() {
  if (!links_.has_begun()) links_.Begin(members_.Hosts(), table_elements_);
  if (links_.Settle(members_.workers().size())) {
    events_.push_back(absl::StrCat("links: ", links_.report().text()));
  }
  view_.set_measures_links(links_.is_measuring());
  return !links_.is_measuring();
}

bool JobState::Finish() {
  if (view_.phase() != v1::EVALUATING || !result_.has_value()) return false;
  if (checkpoint_.IsBusy(Training())) return false;
  if (output_.is_wanted()) saving_version_ = view_.version() + 1;
  EnterPhase(output_.is_wanted() ? v1::SAVING : v1::DONE);
  return true;
}

void JobState::EndFileWork(const absl::Status& result) {
  if (has_ended()) return;
  if (!result.ok()) return Fail(absl::StrCat("--output: ", result.message()));
  output_.EndWork();
  if (view_.phase() == v1::SAVING) {
    EnterPhase(v1::DONE);
  } else {
    Advance();
  }
  Publish();
}

void JobState::Fail(absl::string_view reason) {
  if (has_ended()) return;
  view_.set_reason(CutText(PrintableText(absl::StrReplaceAll(reason, {{"\r", ""}, {"\n", " "}}))));
  EnterPhase(v1::FAILED);
  Publish();
}

bool JobState::Advance() {
  if (view_.phase() == v1::REGISTERING && members_.is_complete()) {
    if (!output_.Make(tables_)) return false;
    const bool has_asked = view_.measures_links();
    if (!HasSettledLinks()) return !has_asked;
    Place();
    EnterPhase(v1::PLACING);
    return true;
  }
  if (view_.phase() == v1::PLACING && members_.ServersHaveSeen(placing_version_)) {
    EnterPhase(v1::TRAINING);
    return true;
  }
  // Servers that have not heard of a death may still apply an update of the dead worker.
  if (view_.phase() == v1::TRAINING && !job_.stay() && members_.LiveWorkersHaveFinished() &&
      members_.ServersHaveSeen(death_version_)) {
    view_.set_evaluator(*members_.LowestLiveWorker());
    EnterPhase(v1::EVALUATING);
    return true;
  }
  if (view_.phase() == v1::SAVING && members_.ServersHaveSeen(saving_version_)) {
    output_.Publish(job_, steps_total_, *result_);
    saving_version_ = kNever;
  }
  return Finish();
}

void JobState::Place() {
  const ShardMap map(table_elements_, SliceBytes(links_.scheduler()), job_.cluster().shard_count());
  *view_.mutable_scheduler() = links_.scheduler();
  bytes_of_server_.assign(members_.servers().size(), 0);
  uint32_t shard = 0;
  for (const ServerId server :
       PlaceShards(map.shard_bytes(), static_cast<int>(members_.servers().size()))) {
    view_.add_server_of_shard(server.value());
    bytes_of_server_[server.value()] += map.BytesOf(ShardId(shard++));
  }
  schedule_.Begin(links_.scheduler(), table_elements_);
  auto_codecs_.Begin({tables_.begin(), tables_.end()}, SliceBytes(links_.scheduler()));
  if (std::string warning = WarningOfLostRows(job_, tables_); !warning.empty()) {
    events_.emplace_back(std::move(warning));
  }
  view_.set_own_arrays(own_arrays_);
  view_.set_epoch(1);
  placing_version_ = view_.version() + 1;
}

void JobState::EnterPhase(v1::Phase phase) {
  if (phase == v1::TRAINING) training_began_ = clock_.Now();
  if (view_.phase() == v1::TRAINING) training_time_ += clock_.Now() - training_began_;
  view_.set_phase(phase);
  events_.emplace_back(absl::StrCat("phase ", v1::Phase_Name(phase),
                                    phase == v1::FAILED ? ": " : "", view_.reason()),
                       std::nullopt, view_.reason());
}

void JobState::Publish() {
  view_.set_version(view_.version() + 1);
  members_.WriteTo(view_);
  for (v1::WorkerInfo& worker : *view_.mutable_workers()) {
    worker.set_is_entering(entering_.Contains(worker.worker()));
  }
  consistency_.WriteTo(view_);
  schedule_.WriteTo(view_);
  if (auto_codecs_.has_chosen()) *view_.mutable_auto_codecs() = auto_codecs_.choice();
  checkpoint_.WriteTo(view_);
  // Servers hold back for one of the two at a time.
  if (checkpoint_.is_agreeing()) view_.set_consistency_change(0);
}

v1::JobView JobState::ViewWithTables() const {
  v1::JobView view = view_;
  if (view.epoch() > 0) *view.mutable_tables() = tables_;
  return view;
}

v1::GetStatusReply JobState::Status(bool with_tables) const {
  v1::GetStatusReply status;
  *status.mutable_view() = with_tables ? ViewWithTables() : view_;
  for (uint32_t id = 0; id < members_.workers().size(); ++id) {
    *status.add_progress() = ProgressOf(id);
  }
  *status.mutable_replaced_workers() = restored_.manifest.replaced_workers();
  status.mutable_replaced_workers()->Add(members_.replaced_workers().begin(),
                                         members_.replaced_workers().end());
  status.mutable_bytes_of_server()->Add(bytes_of_server_.begin(), bytes_of_server_.end());
  for (const Member& server : members_.servers()) *status.add_load_of_server() = server.load;
  status.set_job_name(job_.name());
  status.set_num_servers(job_.cluster().num_servers());
  status.set_num_workers(job_.cluster().num_workers());
  if (job_.scheduler().tune()) *status.mutable_tuning() = schedule_.Report();
  if (HasCodec(job_.codec())) *status.mutable_codec() = job_.codec();
  if (links_.has_measured()) *status.mutable_links() = links_.report();
  if (auto_codecs_.is_wanted()) *status.mutable_auto_codecs() = auto_codecs_.choice();
  checkpoint_.WriteTo(*status.mutable_checkpoint());
  status.mutable_checkpoint()->set_restored(restored_.path);
  status.mutable_checkpoint()->set_restored_step(restored_.manifest.step());
  return status;
}

int JobState::WorkersLost() const {
  auto lost =
      static_cast<int>(restored_.manifest.workers_lost() + members_.replaced_workers().size());
  for (const Member& worker : members_.workers()) lost += worker.is_lost();
  return lost;
}

absl::Duration JobState::TrainingTime() const {
  if (view_.phase() != v1::TRAINING) return training_time_;
  return training_time_ + (clock_.Now() - training_began_);
}

JobOutcome JobState::Outcome() const {
  JobOutcome outcome;
  if (view_.phase() == v1::FAILED) outcome.status = absl::AbortedError(view_.reason());
  outcome.last_status = Status();
  outcome.result = result_.value_or(v1::ReportResultRequest());
  outcome.training_time = training_time_;
  const auto& replaced = outcome.last_status.replaced_workers();
  outcome.replaced_workers.assign(replaced.begin(), replaced.end());
  outcome.workers_lost = WorkersLost();
  outcome.device_notes = devices_.notes();
  outcome.has_other_bits = has_other_bits_;
  return outcome;
}

}  // namespace capstan
