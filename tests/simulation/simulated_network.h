#ifndef TESTS_SIMULATION_SIMULATED_NETWORK_H_
#define TESTS_SIMULATION_SIMULATED_NETWORK_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/random.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"
#include "tests/simulation/simulated_process.h"

namespace capstan {

// The network of a simulation. It delays, reorders, loses and repeats messages, all drawn from one
// seed. A message occupies its sender's and its receiver's link for `per_message` and
// `seconds_per_byte`, and travels for `latency`. Guarded by the baton.
class SimulatedNetwork {
 public:
  struct Options {
    absl::Duration latency = absl::Microseconds(100);
    absl::Duration per_message;   // a link's busy time for each message
    double seconds_per_byte = 0;  // a link's busy time for each byte
    absl::Duration max_jitter;    // added to each message, uniform from 0
    double slow = 0;              // probability of up to max_slow more for a message
    absl::Duration max_slow;
    double drop = 0;  // probabilities of each message
    double duplicate = 0;
    absl::Duration drop_noticed_after = absl::Milliseconds(20);  // by its sender
  };
  // The fate of one message.
  struct Flight {
    absl::Time left;  // its bytes have left the sender's link
    absl::Time arrives;
    bool is_lost = false;
    bool is_duplicated = false;
    absl::Time duplicate_arrives;
  };

  SimulatedNetwork(Options options, uint64_t seed) : options_(options), random_(seed, 1) {}

  // Connects two processes. All arguments outlive the connection. Messages of a dead process are
  // dropped.
  std::unique_ptr<ParameterEndpoint> Connect(SimulatedProcess* worker, SimulatedProcess* server,
                                             ParameterEndpoint* endpoint);
  std::unique_ptr<CoordinatorEndpoint> Connect(SimulatedProcess* member,
                                               SimulatedProcess* coordinator,
                                               CoordinatorEndpoint* endpoint, v1::AutoCodecs choice,
                                               absl::Time known_at);

  const Options& options() const { return options_; }
  uint64_t messages() const { return messages_; }

  // Loses the first reply that tells this member its id, and calls `lost` instead.
  void LoseRegistration(SimulatedProcess* member, absl::AnyInvocable<void()> lost) {
    lost_registrations_[member] = std::move(lost);
  }

  // Loses what is sent from one process to the other before `until`.
  void Block(const SimulatedProcess* from, const SimulatedProcess* to, absl::Time until) {
    blocked_until_[{from, to}] = until;
  }

  // For the connections.
  Flight Send(SimulatedProcess* from, SimulatedProcess* to, uint64_t bytes);
  // Whether the reply to a registration is lost on its way to the member.
  bool LosesRegistration(SimulatedProcess* member);

 private:
  absl::Duration DrawDelay();

  const Options options_;
  Random random_;
  absl::flat_hash_map<std::pair<const SimulatedProcess*, const SimulatedProcess*>, absl::Time>
      blocked_until_;
  uint64_t messages_ = 0;
  absl::flat_hash_map<SimulatedProcess*, absl::Time> sends_until_;
  absl::flat_hash_map<SimulatedProcess*, absl::Time> receives_until_;
  absl::flat_hash_map<SimulatedProcess*, absl::AnyInvocable<void()>> lost_registrations_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SIMULATED_NETWORK_H_
