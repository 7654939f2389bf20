#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/functional/bind_front.h"
#include "common/base/program.h"
#include "server/checkpoint/manifest.h"
#include "server/coordinator/coordinator_metrics.h"
#include "server/coordinator/members/job_event.h"
#include "server/coordinator/plans/output_plan.h"

namespace capstan {
namespace {

// The reply to a call without results: an empty one, or an error.
template <typename Reply>
absl::StatusOr<Reply> EmptyReply(const absl::Status& status) {
  if (!status.ok()) return status;
  return Reply();
}

// `is_early`: the worker with this id must register first.
absl::StatusOr<v1::RegisterReply> RegisterReplyOf(const absl::StatusOr<uint32_t>& id,
                                                  bool is_early = false) {
  if (!id.ok()) return id.status();
  v1::RegisterReply reply;
  reply.set_id(*id);
  reply.set_is_early(is_early);
  return reply;
}

absl::Status StoppedError() {
  return absl::CancelledError("the coordinator is shutting down; start the job again");
}

}  // namespace

Coordinator::Coordinator(Options options, Clock& clock)
    : job_fingerprint_(options.job_fingerprint),
      lease_(absl::Seconds(options.job.membership().lease_seconds())),
      heartbeat_interval_(absl::Seconds(options.job.membership().heartbeat_seconds())),
      clock_(clock),
      output_(std::move(options.output)),
      checkpoints_(std::move(options.checkpoints)),
      restored_xxh3_(options.restored.has_value() ? HashManifest(options.restored->manifest) : 0),
      run_in_background_(options.run_in_background
                             ? std::move(options.run_in_background)
                             : [](absl::AnyInvocable<void()> work) { work(); }),
      state_(std::move(options.job), clock, std::move(options.restored)),
      leases_(lease_),
      alarm_(clock, [this] { OnAlarm(); }) {
  MutexLock lock(&mu_);
  alarm_.RingBy(NextEventLocked());
}

Coordinator::~Coordinator() {
  const auto stopped = [](uint64_t) { return StoppedError(); };
  std::vector<ParkedHeartbeats::Heartbeat> parked;
  std::map<MemberKey, Attendance> attending;
  std::vector<Waiters<v1::SetConsistencyReply>::Answer> changes;
  std::vector<Waiters<v1::CheckpointReply>::Answer> checkpoints;
  {
    MutexLock lock(&mu_);
    is_stopped_ = true;
    parked = parked_.TakeAll();
    attending.swap(attending_);
    changes = change_waiters_.TakeAnswered(stopped);
    checkpoints = checkpoint_waiters_.TakeAnswered(stopped);
  }
  for (auto& answer : changes) answer.done(std::move(answer.reply));
  for (auto& answer : checkpoints) answer.done(std::move(answer.reply));
  for (auto& heartbeat : parked) heartbeat.done(StoppedError());
  for (auto& [member, attendance] : attending) attendance.done(StoppedError());
}

void Coordinator::Call(CoordinatorRequest request, Callback<CoordinatorReply> done) {
  std::visit(
      [&](auto& one) {
        using Reply = ReplyOf<std::decay_t<decltype(one)>>;
        Handle(std::move(one), CallbackOf<Reply>(std::move(done)));
      },
      request);
}

void Coordinator::Handle(v1::GetJobRequest, Callback<v1::GetJobReply> done) {
  v1::GetJobReply reply;
  reply.set_version(kVersion);
  reply.set_wire_version(kWireVersion);
  reply.set_job_fingerprint(job_fingerprint_);
  if (output_ != nullptr) reply.set_output_token(output_->token());
  if (checkpoints_ != nullptr) reply.set_checkpoint_token(checkpoints_->token());
  {
    MutexLock lock(&mu_);
    *reply.mutable_job() = state_.facts().job;
    reply.set_restore(state_.facts().restored.path);
    reply.set_restore_xxh3(restored_xxh3_);
  }
  done(std::move(reply));
}

void Coordinator::Handle(v1::RegisterServerRequest request, Callback<v1::RegisterReply> done) {
  absl::StatusOr<uint32_t> id;
  Answers answers;
  {
    MutexLock lock(&mu_);
    id = state_.RegisterServer(request);
    if (id.ok()) leases_.Begin({v1::HeartbeatRequest::SERVER, *id}, clock_.Now());
    SettleLocked(answers);
  }
  done(RegisterReplyOf(id));
  Give(std::move(answers));
}

void Coordinator::Handle(v1::RegisterWorkerRequest request, Callback<v1::RegisterReply> done) {
  absl::StatusOr<v1::RegisterReply> reply;
  Answers answers;
  {
    MutexLock lock(&mu_);
    if (const std::optional<uint32_t> first = state_.RegistersBefore(request)) {
      reply = RegisterReplyOf(*first, /*is_early=*/true);
    } else {
      const absl::StatusOr<uint32_t> id = state_.RegisterWorker(request);
      if (id.ok()) leases_.Begin({v1::HeartbeatRequest::WORKER, *id}, clock_.Now());
      const bool is_taken = absl::IsResourceExhausted(id.status());
      if (is_taken && request.has_rank()) SuspectWorkerLocked(request.rank());
      reply = RegisterReplyOf(id);
    }
    SettleLocked(answers);
  }
  done(std::move(reply));
  Give(std::move(answers));
}

void Coordinator::Handle(v1::HeartbeatRequest request, Callback<v1::HeartbeatReply> done) {
  absl::Status status;
  Answers answers;
  {
    MutexLock lock(&mu_);
    status = is_stopped_ ? StoppedError() : state_.Heartbeat(request);
    if (status.ok()) {
      const MemberKey member{request.role(), request.id()};
      if (auto older = parked_.Take(member)) AnswerLocked(*std::move(older), answers);
      leases_.Hold(member);
      parked_.Park({member, std::max(request.view_version(), request.received_version()),
                    clock_.Now() + heartbeat_interval_, std::move(done)});
      SettleLocked(answers);
    }
  }
  if (!status.ok()) done(status);
  Give(std::move(answers));
}

void Coordinator::Handle(v1::AttendRequest request, Callback<v1::AttendReply> done) {
  const MemberKey member{request.role(), request.id()};
  const Incarnation incarnation(request.incarnation());
  absl::Status status;
  {
    MutexLock lock(&mu_);
    status = is_stopped_ ? StoppedError() : state_.CheckMember(member, incarnation);
    if (status.ok() && !state_.has_ended()) {
      Attendance older = std::exchange(attending_[member], {incarnation, std::move(done)});
      done = std::move(older.done);
    }
  }
  if (done != nullptr) done(EmptyReply<v1::AttendReply>(status));
}

void Coordinator::NoteBroken(const v1::AttendRequest& request) {
  const MemberKey member{request.role(), request.id()};
  const Incarnation incarnation(request.incarnation());
  Callback<v1::AttendReply> done;
  Answers answers;
  {
    MutexLock lock(&mu_);
    if (is_stopped_) return;
    const auto it = attending_.find(member);
    if (it != attending_.end() && it->second.incarnation == incarnation) {
      done = std::move(it->second.done);
      attending_.erase(it);
    }
    if (state_.LosesNothingWith(member, incarnation)) {
      if (auto parked = parked_.Take(member)) AnswerLocked(*std::move(parked), answers);
      leases_.DoubtBroken(member, clock_.Now());
      SettleLocked(answers);
    }
  }
  if (done != nullptr) done(v1::AttendReply());
  Give(std::move(answers));
}

void Coordinator::Handle(v1::ReportFailureRequest request, Callback<v1::ReportFailureReply> done) {
  absl::Status status;
  Answers answers;
  {
    MutexLock lock(&mu_);
    status = state_.ReportFailure(request);
    // Another process may take the id of a server without which the job goes on.
    const bool keeps_id = request.role() == v1::HeartbeatRequest::WORKER || state_.has_ended();
    if (status.ok() && !request.before_registering() && keeps_id)
      told_.insert({request.role(), request.id()});
    SettleLocked(answers);
  }
  done(EmptyReply<v1::ReportFailureReply>(status));
  Give(std::move(answers));
}

void Coordinator::Handle(v1::ReportResultRequest request, Callback<v1::ReportResultReply> done) {
  absl::Status status;
  Answers answers = Change([&](JobState& state) { status = state.ReportResult(request); });
  done(EmptyReply<v1::ReportResultReply>(status));
  Give(std::move(answers));
}

void Coordinator::Handle(v1::GetStatusRequest request, Callback<v1::GetStatusReply> done) {
  v1::GetStatusReply reply;
  {
    MutexLock lock(&mu_);
    reply = state_.Status(/*with_tables=*/!request.without_tables());
  }
  done(std::move(reply));
}

void Coordinator::AddMetrics(MetricsPage& page) {
  v1::GetStatusReply status;
  int workers_lost = 0;
  {
    MutexLock lock(&mu_);
    status = state_.Status(/*with_tables=*/false);
    workers_lost = state_.facts().WorkersLost();
  }
  AddJobMetrics(status, workers_lost, page);
}

void Coordinator::Handle(v1::SetConsistencyRequest request,
                         Callback<v1::SetConsistencyReply> done) {
  absl::Status status;
  Answers answers;
  {
    MutexLock lock(&mu_);
    const absl::StatusOr<uint64_t> change =
        is_stopped_ ? StoppedError() : state_.BeginConsistencyChange(request);
    status = change.status();
    if (status.ok()) change_waiters_.Add(*change, std::move(done));
    SettleLocked(answers);
  }
  if (!status.ok()) done(status);
  Give(std::move(answers));
}

void Coordinator::Handle(v1::CheckpointRequest, Callback<v1::CheckpointReply> done) {
  absl::Status status;
  Answers answers;
  {
    MutexLock lock(&mu_);
    const absl::StatusOr<uint64_t> number =
        is_stopped_ ? StoppedError() : state_.RequestCheckpoint();
    status = number.status();
    if (status.ok()) checkpoint_waiters_.Add(*number, std::move(done));
    SettleLocked(answers);
  }
  if (!status.ok()) done(status);
  Give(std::move(answers));
}

void Coordinator::Handle(v1::ReadClockRequest, Callback<v1::ReadClockReply> done) {
  v1::ReadClockReply reply;
  reply.set_nanoseconds(absl::ToUnixNanos(clock_.Now()));
  done(std::move(reply));
}

void Coordinator::AnswerWaiters() {
  std::vector<Waiters<v1::SetConsistencyReply>::Answer> changes;
  std::vector<Waiters<v1::CheckpointReply>::Answer> checkpoints;
  {
    MutexLock lock(&mu_);
    changes = change_waiters_.TakeAnswered(absl::bind_front(&JobState::ConsistencyReply, &state_));
    checkpoints =
        checkpoint_waiters_.TakeAnswered(absl::bind_front(&JobState::CheckpointReply, &state_));
  }
  for (auto& answer : changes) answer.done(std::move(answer.reply));
  for (auto& answer : checkpoints) answer.done(std::move(answer.reply));
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
    state_.CheckRegistration();
    state_.GiveUpPlaces();
    for (auto& heartbeat : parked_.TakeDue(now)) AnswerLocked(std::move(heartbeat), answers);
    SettleLocked(answers);
  }
  Give(std::move(answers));
}

void Coordinator::TakeEndOfLeaseLocked(const LeaseTable::Expired& expired) {
  const MemberKey member = expired.member;
  if (expired.was_doubted && member.role == v1::HeartbeatRequest::SERVER) {
    // Another server may have been lost since, and its shards have lost their copies here.
    const Member& server = state_.facts().members.servers().at(member.id);
    const bool is_needed = !state_.LosesNothingWith(member, server.incarnation);
    if (is_needed && server.is_live()) return leases_.Renew(member, clock_.Now());
  }
  state_.DeclareDead(member, /*is_broken=*/expired.was_doubted);
}

void Coordinator::SuspectWorkerLocked(uint32_t worker) {
  const MemberKey member{v1::HeartbeatRequest::WORKER, worker};
  const std::vector<Member>& workers = state_.facts().members.workers();
  if (worker >= workers.size() || parked_.Has(member)) return;
  if (!state_.LosesNothingWith(member, workers[worker].incarnation)) return;
  leases_.DoubtClaimed(member, clock_.Now());
}

void Coordinator::AnswerLocked(ParkedHeartbeats::Heartbeat heartbeat, Answers& answers) {
  leases_.Renew(heartbeat.member, clock_.Now());
  Answer& answer = answers.emplace_back();
  answer.member = heartbeat.member;
  answer.view_version = state_.view().version();
  if (heartbeat.received_version < answer.view_version) {
    *answer.reply.mutable_view() = state_.facts().ViewWithTables();
  }
  answer.done = std::move(heartbeat.done);
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
    report_end_by_ = std::min(report_end_by_, clock_.Now() + lease_);
  }
  alarm_.RingBy(NextEventLocked());
}

absl::Time Coordinator::NextEventLocked() const {
  absl::Time next = std::min({leases_.NextExpiry(), state_.registration_deadline(),
                              state_.place_deadline(), parked_.NextDue()});
  if (on_end_ != nullptr && report_end_by_ > clock_.Now()) next = std::min(next, report_end_by_);
  return next;
}

void Coordinator::Give(Answers answers) {
  for (Answer& answer : answers) answer.done(std::move(answer.reply));
  LogEvents();
  AnswerWaiters();
  EndAttendances();
  BeginFileWork();
  absl::AnyInvocable<void(JobOutcome)> on_end;
  JobOutcome outcome;
  {
    MutexLock lock(&mu_);
    if (!state_.has_ended()) return;
    for (const Answer& answer : answers) {
      if (answer.view_version == state_.view().version()) told_.insert(answer.member);
    }
    if (on_end_ == nullptr) return;
    const std::vector<MemberKey> live = state_.facts().LiveMembers();
    const bool all_know = std::includes(told_.begin(), told_.end(), live.begin(), live.end());
    if (clock_.Now() < report_end_by_ && !all_know) return;
    on_end = std::exchange(on_end_, nullptr);
    outcome = state_.Outcome();
  }
  on_end(std::move(outcome));
}

void Coordinator::EndAttendances() {
  std::map<MemberKey, Attendance> attending;
  {
    MutexLock lock(&mu_);
    if (state_.has_ended()) attending.swap(attending_);
  }
  for (auto& [member, attendance] : attending) attendance.done(v1::AttendReply());
}

void Coordinator::BeginFileWork() {
  OutputPlan::Work output;  // there is work on one of them at most
  CheckpointPlan::Work checkpoint;
  {
    MutexLock lock(&mu_);
    output = state_.TakeFileWork();
    checkpoint = state_.TakeCheckpointWork();
  }
  if (output != nullptr) {
    run_in_background_([this, work = std::move(output)]() mutable { DoFileWork(std::move(work)); });
  }
  if (checkpoint != nullptr) {
    run_in_background_(
        [this, work = std::move(checkpoint)]() mutable { DoCheckpointWork(std::move(work)); });
  }
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
