#include "tests/simulation/simulated_network.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/simulated_connection.h"
#include "tests/simulation/simulated_coordinator_connection.h"

namespace capstan {

std::unique_ptr<ParameterEndpoint> SimulatedNetwork::Connect(SimulatedProcess* worker,
                                                             SimulatedProcess* server,
                                                             ParameterEndpoint* endpoint) {
  return std::make_unique<SimulatedConnection>(this, worker, server, endpoint);
}

std::unique_ptr<CoordinatorEndpoint> SimulatedNetwork::Connect(SimulatedProcess* member,
                                                               SimulatedProcess* coordinator,
                                                               CoordinatorEndpoint* endpoint,
                                                               v1::AutoCodecs choice,
                                                               absl::Time known_at) {
  return std::make_unique<SimulatedCoordinatorConnection>(this, member, coordinator, endpoint,
                                                          std::move(choice), known_at);
}

absl::Duration SimulatedNetwork::DrawDelay() {
  absl::Duration delay = random_.UniformFloat() * options_.max_jitter;
  if (random_.Bernoulli(options_.slow)) delay += random_.UniformFloat() * options_.max_slow;
  return delay;
}

SimulatedNetwork::Flight SimulatedNetwork::Send(SimulatedProcess* from, SimulatedProcess* to,
                                                uint64_t bytes) {
  ++messages_;
  const absl::Time now = from->Now();
  const absl::Duration busy =
      options_.per_message + absl::Seconds(static_cast<double>(bytes) * options_.seconds_per_byte);
  absl::Time& sends_until = sends_until_.try_emplace(from, now).first->second;
  absl::Time& receives_until = receives_until_.try_emplace(to, now).first->second;
  Flight flight;
  flight.left = sends_until = std::max(sends_until, now) + busy;
  receives_until = std::max(flight.left + options_.latency, receives_until + busy);
  flight.arrives = receives_until + DrawDelay();
  flight.is_lost = random_.Bernoulli(options_.drop);
  const auto blocked = blocked_until_.find({from, to});
  if (blocked != blocked_until_.end() && now < blocked->second) flight.is_lost = true;
  flight.is_duplicated = random_.Bernoulli(options_.duplicate);
  flight.duplicate_arrives = receives_until + DrawDelay() + DrawDelay();
  return flight;
}

bool SimulatedNetwork::LosesRegistration(SimulatedProcess* member) {
  auto lost = lost_registrations_.extract(member);
  if (lost.empty()) return false;
  lost.mapped()();
  return true;
}

}  // namespace capstan
