#include "tests/simulation/simulated_coordinator_connection.h"

#include <utility>
#include <variant>

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

void SimulatedCoordinatorConnection::Send(CoordinatorRequest request,
                                          Callback<CoordinatorReply> done) {
  const auto shared_done = std::make_shared<Callback<CoordinatorReply>>(std::move(done));
  const uint64_t id = ++open_->last_id;
  open_->calls[id] = [shared_done](absl::Status status) { (*shared_done)(std::move(status)); };
  const auto answer = [open = open_, id, shared_done,
                       member = member_](absl::StatusOr<CoordinatorReply> reply) {
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
                    answer_lost, noticed_after](absl::StatusOr<CoordinatorReply> reply) {
    const SimulatedNetwork::Flight back = network->Send(coordinator, member, kMessageBytes);
    if (back.is_lost) {
      member->RunAfter(noticed_after, answer_lost);
      return;
    }
    member->RunAt(back.arrives,
                  [answer, reply = std::move(reply)]() mutable { answer(std::move(reply)); });
  };
  coordinator_->RunAt(there.arrives, [endpoint = endpoint_, request = std::move(request),
                                      send_back = std::move(send_back)]() mutable {
    endpoint->Call(std::move(request), std::move(send_back));
  });
}

void SimulatedCoordinatorConnection::Call(CoordinatorRequest request,
                                          Callback<CoordinatorReply> done) {
  const bool registers_worker = std::holds_alternative<v1::RegisterWorkerRequest>(request);
  Send(std::move(request),
       [network = network_, choice = choice_, known_at = known_at_, member = member_,
        registers_worker, done = std::move(done)](absl::StatusOr<CoordinatorReply> reply) mutable {
         if (reply.ok() && registers_worker && network->LosesRegistration(member)) {
           reply = absl::UnavailableError("a message was lost");
         }
         const bool is_known = choice.first_step() > 0 && member->Now() >= known_at;
         auto* const beat = reply.ok() ? std::get_if<v1::HeartbeatReply>(&*reply) : nullptr;
         if (beat != nullptr && is_known && !beat->view().empty()) {
           v1::JobView view = ViewOf(*beat).value();
           *view.mutable_auto_codecs() = choice;
           beat->set_view(view.SerializeAsString());
         }
         done(std::move(reply));
       });
}

}  // namespace capstan
