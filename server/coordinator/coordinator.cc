#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/checkpoint/manifest.h"
#include "server/coordinator/coordinator_metrics.h"
#include "server/coordinator/members/job_event.h"
#include "server/coordinator/plans/output_plan.h"

namespace capstan {
namespace {

// Saving a state usually takes milliseconds.
constexpr absl::Duration kSlowSave = absl::Seconds(1);

constexpr int kLooksInLease = 4;

}  // namespace

Coordinator::Coordinator(Options options, Clock& clock)
    : job_fingerprint_(options.job_fingerprint),
      heartbeat_interval_(absl::Seconds(options.job.membership().heartbeat_seconds())),
      clock_(clock),
      output_(std::move(options.output)),
      checkpoints_(std::move(options.checkpoints)),
      restored_xxh3_(options.restored.has_value() ? HashManifest(options.restored->manifest) : 0),
      run_in_background_(options.run_in_background
                             ? std::move(options.run_in_background)
                             : [](absl::AnyInvocable<void()> work) { work(); }),
      folder_token_(options.folder_token),
      state_(std::move(options.job), clock, std::move(options.restored),
             options.store == nullptr ? 0 : options.store->term()),
      leases_(absl::Seconds(state_.facts().job.membership().lease_seconds())),
      end_(absl::Seconds(state_.facts().job.membership().lease_seconds())),
      keeper_(KeeperOptions(options, state_.facts().job.membership()), clock),
      alarm_(clock, [this] { OnAlarm(); }) {
  if (options.saved.has_value()) GoOn(*options.saved, options.takes_over);
  MutexLock lock(&mu_);
  alarm_.RingBy(NextEventLocked());
}

StateKeeper::Options Coordinator::KeeperOptions(Options& options,
                                                const v1::MembershipSpec& membership) {
  StateKeeper::Options keeper;
  keeper.store = std::move(options.store);
  keeper.snapshot = [this] { return Snapshot(); };
  keeper.run_in_background = std::move(options.save_in_background);
  keeper.on_lost = std::move(options.on_lost);
  // Members that still come to this coordinator are to reach the next one within their leases.
  keeper.look_interval = absl::Seconds(membership.lease_seconds()) / kLooksInLease;
  keeper.patience = absl::Seconds(membership.coordinator_seconds());
  return keeper;
}

StateKeeper::Snapshot Coordinator::Snapshot() {
  StateKeeper::Snapshot snapshot;
  MutexLock lock(&mu_);
  snapshot.change = state_.change();
  v1::CoordinatorState& state = snapshot.job.state;
  state = state_.State();
  state.set_term(keeper_.term());
  state.set_job_fingerprint(job_fingerprint_);
  state.set_folder_token(folder_token_);
  if (constants_ == nullptr || constants_->tables().empty() == state_.has_tables()) {
    constants_ = std::make_shared<const v1::JobConstants>(state_.Constants());
  }
  snapshot.job.constants = constants_;
  return snapshot;
}

void Coordinator::GoOn(const SavedJob& saved, bool takes_over) {
  MutexLock lock(&mu_);
  state_.GoOn(saved);
  const absl::Time now = clock_.Now();
  if (state_.has_ended()) return end_.Begin(now);
  const v1::MembershipSpec& membership = state_.facts().job.membership();
  const absl::Duration longest_try =
      absl::Seconds(membership.lease_seconds() / 2 + membership.heartbeat_seconds());
  for (const MemberKey member : state_.facts().LiveMembers()) {
    takes_over ? leases_.Begin(member, now + longest_try) : leases_.Await(member, now);
  }
}

absl::Status Coordinator::StoppedError() {
  return absl::CancelledError("the coordinator is shutting down; start the job again");
}

Coordinator::~Coordinator() {
  const auto stopped = [](uint64_t) { return StoppedError(); };
  std::vector<ParkedHeartbeats::Heartbeat> parked;
  std::vector<Attendances::Callback> attending;
  std::vector<Waiters<v1::SetConsistencyReply>::Answer> changes;
  std::vector<Waiters<v1::CheckpointReply>::Answer> checkpoints;
  {
    MutexLock lock(&mu_);
    is_stopped_ = true;
    parked = parked_.TakeAll();
    attending = attending_.TakeAll();
    changes = change_waiters_.TakeAnswered(stopped);
    checkpoints = checkpoint_waiters_.TakeAnswered(stopped);
  }
  for (auto& answer : changes) answer.done(std::move(answer.reply));
  for (auto& answer : checkpoints) answer.done(std::move(answer.reply));
  for (auto& heartbeat : parked) heartbeat.done(StoppedError());
  for (auto& done : attending) done(StoppedError());
}

void Coordinator::NoteBroken(const v1::AttendRequest& request, bool is_heartbeat) {
  const MemberKey member{request.role(), request.id()};
  const Incarnation incarnation(request.incarnation());
  Callback<v1::AttendReply> done;
  Answers answers;
  {
    MutexLock lock(&mu_);
    if (is_stopped_) return;
    // The heartbeat has had its time, over a connection that is there.
    if (is_heartbeat && attending_.Has(member, incarnation)) return;
    done = attending_.Take(member, incarnation);
    if (state_.LosesNothingWith(member, incarnation)) {
      if (auto parked = parked_.Take(member)) AnswerLocked(*std::move(parked), answers);
      leases_.DoubtBroken(member, clock_.Now());
      SettleLocked(answers);
    }
  }
  if (done != nullptr) done(v1::AttendReply());
  Give(std::move(answers));
}

v1::GetStatusReply Coordinator::NewestStatus() {
  MutexLock lock(&mu_);
  return StatusLocked(/*with_tables=*/false);
}

v1::GetStatusReply Coordinator::StatusLocked(bool with_tables) const {
  v1::GetStatusReply status = state_.Status(with_tables);
  if (keeper_.term() == 0) return status;
  status.set_term(keeper_.term());
  const v1::MembershipSpec& membership = state_.facts().job.membership();
  status.set_coordinator_seconds(
      std::max(membership.coordinator_seconds(), membership.rpc_deadline_seconds()));
  return status;
}

void Coordinator::AddMetrics(MetricsPage& page) {
  int workers_lost = 0;
  {
    MutexLock lock(&mu_);
    workers_lost = state_.facts().WorkersLost();
  }
  AddJobMetrics(NewestStatus(), workers_lost, page);
  page.Add("capstan_coordinator_term", static_cast<double>(keeper_.term()));
  page.Add("capstan_state_waiting_seconds", absl::ToDoubleSeconds(keeper_.WaitingTime()));
}

void Coordinator::Fail(absl::string_view reason) {
  Give(Change([reason](JobState& state) { state.Fail(reason); }));
}

void Coordinator::OnEnd(absl::AnyInvocable<void(JobOutcome)> on_end) {
  Answers answers;
  {
    MutexLock lock(&mu_);
    on_end_ = std::move(on_end);
    SettleLocked(answers);
  }
  Give(std::move(answers));
}

void Coordinator::OnAlarm() {
  Answers answers;
  {
    MutexLock lock(&mu_);
    if (is_stopped_) return;
    const absl::Time now = clock_.Now();
    for (const LeaseTable::Expired& expired : leases_.TakeExpired(now)) {
      TakeEndOfLeaseLocked(expired);
    }
    for (const MemberKey absent : leases_.TakeAbsent(now)) {
      if (state_.LosesNothingWith(absent)) leases_.DoubtBroken(absent, now);
    }
    state_.CheckRegistration();
    state_.GiveUpPlaces();
    for (auto& heartbeat : parked_.TakeDue(now)) AnswerLocked(std::move(heartbeat), answers);
    SettleLocked(answers);
  }
  Give(std::move(answers));
}

void Coordinator::TakeEndOfLeaseLocked(const LeaseTable::Expired& expired) {
  const MemberKey member = expired.member;
  // Its heartbeat may wait for an answer that waits for the disk.
  if (keeper_.WaitingTime() >= kSlowSave) return leases_.Renew(member, clock_.Now());
  if (expired.was_doubted && member.role == v1::HeartbeatRequest::SERVER) {
    // Another server may have been lost since, and its shards have lost their copies here.
    const Member& server = state_.facts().members.servers().at(member.id);
    const bool is_needed = !state_.LosesNothingWith(member);
    if (is_needed && server.is_live()) return leases_.Renew(member, clock_.Now());
  }
  state_.DeclareDead(member, /*is_broken=*/expired.was_doubted);
}

void Coordinator::SuspectWorkerLocked(uint32_t worker) {
  const MemberKey member{v1::HeartbeatRequest::WORKER, worker};
  if (parked_.Has(member) || !state_.LosesNothingWith(member)) return;
  leases_.DoubtClaimed(member, clock_.Now());
}

void Coordinator::AnswerLocked(ParkedHeartbeats::Heartbeat heartbeat, Answers& answers) {
  if (heartbeat.member.part == 0) leases_.Renew(heartbeat.member, clock_.Now());
  Answer& answer = answers.heartbeats.emplace_back();
  answer.member = heartbeat.member;
  answer.view_version = state_.view().version();
  if (heartbeat.received_version < answer.view_version) {
    answer.reply.set_view(EncodedViewLocked());
  }
  answer.done = std::move(heartbeat.done);
}

const std::string& Coordinator::EncodedViewLocked() {
  const uint64_t version = state_.view().version();
  if (std::exchange(encoded_version_, version) != version) {
    encoded_view_ = state_.facts().ViewWithTables().SerializeAsString();
  }
  return encoded_view_;
}

Coordinator::Answers Coordinator::Change(absl::FunctionRef<void(JobState&)> change) {
  MutexLock lock(&mu_);
  change(state_);
  Answers answers;
  SettleLocked(answers);
  return answers;
}

void Coordinator::SettleLocked(Answers& answers) {
  for (auto& heartbeat : parked_.TakeOlderThan(state_.view().version())) {
    AnswerLocked(std::move(heartbeat), answers);
  }
  if (state_.has_ended()) {
    leases_.Clear();
    end_.Begin(clock_.Now());
  }
  answers.change = state_.change();
  alarm_.RingBy(NextEventLocked());
}

absl::Time Coordinator::NextEventLocked() const {
  absl::Time next = std::min({leases_.NextExpiry(), state_.registration_deadline(),
                              state_.place_deadline(), parked_.NextDue()});
  if (on_end_ != nullptr && end_.deadline() > clock_.Now()) next = std::min(next, end_.deadline());
  return next;
}

void Coordinator::Give(Answers answers) {
  for (Answer& answer : answers.heartbeats) {
    keeper_.WhenKept(answers.change,
                     [this, answer = std::move(answer)](const absl::Status& kept) mutable {
                       GiveHeartbeat(std::move(answer), kept);
                     });
  }
  LogEvents();
  AnswerWaiters();
  EndAttendances();
  BeginFileWork();
  keeper_.WhenKept(answers.change, [this](const absl::Status& kept) {
    if (kept.ok()) ReportEnd();
  });
}

void Coordinator::GiveHeartbeat(Answer answer, const absl::Status& kept) {
  if (!kept.ok()) return answer.done(kept);
  answer.done(std::move(answer.reply));
  MutexLock lock(&mu_);
  const bool knows_end = state_.has_ended() && answer.view_version == state_.view().version();
  if (knows_end) end_.NoteTold(answer.member);
}

void Coordinator::ReportEnd() {
  absl::AnyInvocable<void(JobOutcome)> on_end;
  JobOutcome outcome;
  {
    MutexLock lock(&mu_);
    if (!state_.has_ended() || on_end_ == nullptr) return;
    const auto is_of = [state = &state_](MemberKey worker, Incarnation incarnation) {
      return state->CheckMember(worker, incarnation).ok();
    };
    if (!end_.IsOver(state_.facts().LiveMembers(), clock_.Now(), is_of)) return;
    on_end = std::exchange(on_end_, nullptr);
    outcome = state_.Outcome();
  }
  on_end(std::move(outcome));
}

void Coordinator::EndAttendances() {
  std::vector<Attendances::Callback> attending;
  {
    MutexLock lock(&mu_);
    if (state_.has_ended()) attending = attending_.TakeAll();
  }
  for (auto& done : attending) done(v1::AttendReply());
}

void Coordinator::BeginFileWork() {
  OutputPlan::Work output;  // there is work on one of them at most
  CheckpointPlan::Work checkpoint;
  uint64_t change = 0;
  {
    MutexLock lock(&mu_);
    change = state_.change();
    output = state_.TakeFileWork();
    checkpoint = state_.TakeCheckpointWork();
  }
  absl::AnyInvocable<void()> work;
  if (output != nullptr) {
    work = [this, of_output = std::move(output)]() mutable { DoFileWork(std::move(of_output)); };
  } else if (checkpoint != nullptr) {
    work = [this, of_checkpoint = std::move(checkpoint)]() mutable {
      DoCheckpointWork(std::move(of_checkpoint));
    };
  }
  if (work == nullptr) return;
  // The files are those of another coordinator once that has taken over.
  keeper_.WhenConfirmed(change, [this, work = std::move(work)](const absl::Status& kept) mutable {
    if (kept.ok()) run_in_background_(std::move(work));
  });
}

void Coordinator::DoFileWork(OutputPlan::Work work) {
  const absl::Status result = output_ == nullptr ? absl::OkStatus() : work(*output_);
  Give(Change([&result](JobState& state) { state.EndFileWork(result); }));
}

void Coordinator::DoCheckpointWork(CheckpointPlan::Work work) {
  absl::StatusOr<std::string> result =
      absl::FailedPreconditionError("the coordinator has no folder for checkpoints");
  if (checkpoints_ != nullptr) result = work(*checkpoints_);
  Give(Change([&result](JobState& state) { state.EndCheckpointWork(result); }));
}

void Coordinator::LogEvents() {
  JobEvents events;
  {
    MutexLock lock(&mu_);
    events = state_.TakeEvents();
  }
  for (const JobEvent& event : events) Log(event);
}

}  // namespace capstan
