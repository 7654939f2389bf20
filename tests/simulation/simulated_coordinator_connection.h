#ifndef TESTS_SIMULATION_SIMULATED_COORDINATOR_CONNECTION_H_
#define TESTS_SIMULATION_SIMULATED_COORDINATOR_CONNECTION_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"
#include "tests/simulation/simulated_network.h"
#include "tests/simulation/simulated_process.h"

namespace capstan {

// A member's connection to the coordinator over the simulated network. A dead member gets an error,
// so its threads end at the end of the simulation. The destructor answers open calls UNAVAILABLE.
class SimulatedCoordinatorConnection : public CoordinatorEndpoint {
 public:
  // All pointers outlive the connection and its messages. `choice` is the choice for auto codecs in
  // the views that arrive from `known_at` on. (No coordinator makes one in the simulation, where
  // the links have no rate.)
  SimulatedCoordinatorConnection(SimulatedNetwork* network, SimulatedProcess* member,
                                 SimulatedProcess* coordinator, CoordinatorEndpoint* endpoint,
                                 v1::AutoCodecs choice, absl::Time known_at);
  ~SimulatedCoordinatorConnection() override;

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override;

 private:
  // Calls without an answer yet. It outlives the connection if an answer comes late.
  struct Open {
    uint64_t last_id = 0;
    std::map<uint64_t, absl::AnyInvocable<void(absl::Status)>> calls;
  };

  void Send(CoordinatorRequest request, Callback<CoordinatorReply> done);

  SimulatedNetwork* const network_;
  SimulatedProcess* const member_;
  SimulatedProcess* const coordinator_;
  CoordinatorEndpoint* const endpoint_;
  const v1::AutoCodecs choice_;
  const absl::Time known_at_;
  const std::shared_ptr<Open> open_ = std::make_shared<Open>();
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SIMULATED_COORDINATOR_CONNECTION_H_
