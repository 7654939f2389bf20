#include "tests/simulation/simulated_coordinator_connection.h"

#include <utility>

#include "absl/time/time.h"

namespace capstan {
namespace {

constexpr uint64_t kMessageBytes = 256;

}  // namespace

SimulatedCoordinatorConnection::SimulatedCoordinatorConnection(
    SimulatedNetwork* network, SimulatedProcess* member, SimulatedProcess* coordinator,
    CoordinatorEndpoint* endpoint, v1::AutoCodecs choice, absl::Time known_at)
    : network_(network),
      member_(member),
      coordinator_(coordinator),
      endpoint_(endpoint),
      choice_(std::move(choice)),
      known_at_(known_at) {}

SimulatedCoordinatorConnection::~SimulatedCoordinatorConnection() {
  auto calls = std::move(open_->calls);
  open_->calls.clear();
  for (auto& [id, cancel] : calls) cancel(absl::UnavailableError("the connection was closed"));
}

template <typename Request, typename Reply>
void SimulatedCoordinatorConnection::Call(Method<Request, Reply> method, Request request,
                                          Callback<Reply> done) {
  const auto shared_done = std::make_shared<Callback<Reply>>(std::move(done));
  const uint64_t id = ++open_->last_id;
  open_->calls[id] = [shared_done](absl::Status status) { (*shared_done)(std::move(status)); };
  const auto answer = [open = open_, id, shared_done,
                       member = member_](absl::StatusOr<Reply> reply) {
    if (open->calls.erase(id) == 0) return;
    if (!member->is_alive()) reply = absl::FailedPreconditionError("this process is dead");
    (*shared_done)(std::move(reply));
  };
  const auto answer_lost = [answer] { answer(absl::UnavailableError("a message was lost")); };
  if (!member_->is_alive()) return answer_lost();

  const absl::Duration noticed_after = network_->options().drop_noticed_after;
  const SimulatedNetwork::Flight there = network_->Send(member_, coordinator_, kMessageBytes);
  if (there.is_lost) {
    member_->RunAfter(noticed_after, answer_lost);
    return;
  }
  auto send_back = [network = network_, member = member_, coordinator = coordinator_, answer,
                    answer_lost, noticed_after](absl::StatusOr<Reply> reply) {
    const SimulatedNetwork::Flight back = network->Send(coordinator, member, kMessageBytes);
    if (back.is_lost) {
      member->RunAfter(noticed_after, answer_lost);
      return;
    }
    member->RunAt(back.arrives,
                  [answer, reply = std::move(reply)]() mutable { answer(std::move(reply)); });
  };
  coordinator_->RunAt(there.arrives, [endpoint = endpoint_, method, request = std::move(request),
                                      send_back = std::move(send_back)]() mutable {
    (endpoint->*method)(std::move(request), std::move(send_back));
  });
}

void SimulatedCoordinatorConnection::GetJob(v1::GetJobRequest request,
                                            Callback<v1::GetJobReply> done) {
  Call(&CoordinatorEndpoint::GetJob, std::move(request), std::move(done));
}

void SimulatedCoordinatorConnection::RegisterServer(v1::RegisterServerRequest request,
                                                    Callback<v1::RegisterReply> done) {
  Call(&CoordinatorEndpoint::RegisterServer, std::move(request), std::move(done));
}

void SimulatedCoordinatorConnection::RegisterWorker(v1::RegisterWorkerRequest request,
                                                    Callback<v1::RegisterReply> done) {
  Callback<v1::RegisterReply> unless_lost =
      [network = network_, member = member_,
       done = std::move(done)](absl::StatusOr<v1::RegisterReply> reply) mutable {
        if (reply.ok() && network->LosesRegistration(member)) {
          reply = absl::UnavailableError("a message was lost");
        }
        done(std::move(reply));
      };
  Call(&CoordinatorEndpoint::RegisterWorker, std::move(request), std::move(unless_lost));
}

void SimulatedCoordinatorConnection::Heartbeat(v1::HeartbeatRequest request,
                                               Callback<v1::HeartbeatReply> done) {
  Callback<v1::HeartbeatReply> with_choice =
      [choice = choice_, known_at = known_at_, member = member_,
       done = std::move(done)](absl::StatusOr<v1::HeartbeatReply> reply) mutable {
        const bool is_known = choice.first_step() > 0 && member->Now() >= known_at;
        if (reply.ok() && is_known) *reply->mutable_view()->mutable_auto_codecs() = choice;
        done(std::move(reply));
      };
  Call(&CoordinatorEndpoint::Heartbeat, std::move(request), std::move(with_choice));
}

void SimulatedCoordinatorConnection::ReportFailure(v1::ReportFailureRequest request,
                                                   Callback<v1::ReportFailureReply> done) {
  Call(&CoordinatorEndpoint::ReportFailure, std::move(request), std::move(done));
}

void SimulatedCoordinatorConnection::ReportResult(v1::ReportResultRequest request,
                                                  Callback<v1::ReportResultReply> done) {
  Call(&CoordinatorEndpoint::ReportResult, std::move(request), std::move(done));
}

void SimulatedCoordinatorConnection::GetStatus(v1::GetStatusRequest request,
                                               Callback<v1::GetStatusReply> done) {
  Call(&CoordinatorEndpoint::GetStatus, std::move(request), std::move(done));
}

void SimulatedCoordinatorConnection::SetConsistency(v1::SetConsistencyRequest request,
                                                    Callback<v1::SetConsistencyReply> done) {
  Call(&CoordinatorEndpoint::SetConsistency, std::move(request), std::move(done));
}

void SimulatedCoordinatorConnection::Checkpoint(v1::CheckpointRequest request,
                                                Callback<v1::CheckpointReply> done) {
  Call(&CoordinatorEndpoint::Checkpoint, std::move(request), std::move(done));
}

void SimulatedCoordinatorConnection::ReadClock(v1::ReadClockRequest request,
                                               Callback<v1::ReadClockReply> done) {
  Call(&CoordinatorEndpoint::ReadClock, std::move(request), std::move(done));
}

}  // namespace capstan
