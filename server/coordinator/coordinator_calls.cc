// The calls of the coordinator's service.
#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/bind_front.h"
#include "common/base/program.h"
#include "server/coordinator/coordinator.h"

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

}  // namespace

template <typename Reply>
void Coordinator::Tell(uint64_t change, Callback<Reply> done, absl::StatusOr<Reply> reply) {
  const bool is_error = !reply.ok();
  auto say = [done = std::move(done), reply = std::move(reply)](const absl::Status& kept) mutable {
    kept.ok() ? done(std::move(reply)) : done(kept);
  };
  is_error ? keeper_.WhenConfirmed(change, std::move(say))
           : keeper_.WhenKept(change, std::move(say));
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
  reply.set_keeps_state(keeper_.term() > 0);
  uint64_t change = 0;
  {
    MutexLock lock(&mu_);
    change = state_.change();
    *reply.mutable_job() = state_.facts().job;
    reply.set_restore(state_.facts().restored.path);
    reply.set_restore_xxh3(restored_xxh3_);
  }
  Tell<v1::GetJobReply>(change, std::move(done), std::move(reply));
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
  Tell(answers.change, std::move(done), RegisterReplyOf(id));
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
  Tell(answers.change, std::move(done), std::move(reply));
  Give(std::move(answers));
}

void Coordinator::Handle(v1::HeartbeatRequest request, Callback<v1::HeartbeatReply> done) {
  absl::Status status;
  Answers answers;
  {
    MutexLock lock(&mu_);
    status = is_stopped_ ? StoppedError() : state_.Heartbeat(request);
    if (status.ok()) {
      const MemberKey member{request.role(), request.id(), request.part()};
      if (auto older = parked_.Take(member)) AnswerLocked(*std::move(older), answers);
      if (member.part == 0) leases_.Hold(member, clock_.Now());
      if (member.part > 0) end_.NotePart(member, Incarnation(request.incarnation()));
      parked_.Park({member, std::max(request.view_version(), request.received_version()),
                    clock_.Now() + heartbeat_interval_, std::move(done)});
    }
    SettleLocked(answers);
  }
  if (!status.ok()) Tell<v1::HeartbeatReply>(answers.change, std::move(done), status);
  Give(std::move(answers));
}

void Coordinator::Handle(v1::AttendRequest request, Callback<v1::AttendReply> done) {
  const MemberKey member{request.role(), request.id()};
  const Incarnation incarnation(request.incarnation());
  absl::Status status;
  uint64_t change = 0;
  {
    MutexLock lock(&mu_);
    change = state_.change();
    status = is_stopped_ ? StoppedError() : state_.CheckMember(member, incarnation);
    if (status.ok() && !state_.has_ended()) {
      done = attending_.Put(member, incarnation, std::move(done));
    }
  }
  if (done != nullptr) Tell(change, std::move(done), EmptyReply<v1::AttendReply>(status));
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
      end_.NoteTold({request.role(), request.id(), request.part()});
    SettleLocked(answers);
  }
  Tell(answers.change, std::move(done), EmptyReply<v1::ReportFailureReply>(status));
  Give(std::move(answers));
}

void Coordinator::Handle(v1::ReportResultRequest request, Callback<v1::ReportResultReply> done) {
  absl::Status status;
  Answers answers = Change([&](JobState& state) { status = state.ReportResult(request); });
  Tell(answers.change, std::move(done), EmptyReply<v1::ReportResultReply>(status));
  Give(std::move(answers));
}

void Coordinator::Handle(v1::GetStatusRequest request, Callback<v1::GetStatusReply> done) {
  v1::GetStatusReply reply;
  uint64_t change = 0;
  {
    MutexLock lock(&mu_);
    change = state_.change();
    reply = StatusLocked(/*with_tables=*/!request.without_tables());
  }
  Tell<v1::GetStatusReply>(change, std::move(done), std::move(reply));
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
  if (!status.ok()) Tell<v1::SetConsistencyReply>(answers.change, std::move(done), status);
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
  if (!status.ok()) Tell<v1::CheckpointReply>(answers.change, std::move(done), status);
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
  uint64_t change = 0;
  {
    MutexLock lock(&mu_);
    change = state_.change();
    changes = change_waiters_.TakeAnswered(absl::bind_front(&JobState::ConsistencyReply, &state_));
    checkpoints =
        checkpoint_waiters_.TakeAnswered(absl::bind_front(&JobState::CheckpointReply, &state_));
  }
  for (auto& one : changes) Tell(change, std::move(one.done), std::move(one.reply));
  for (auto& one : checkpoints) Tell(change, std::move(one.done), std::move(one.reply));
}

}  // namespace capstan
