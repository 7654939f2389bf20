#ifndef TESTS_SIMULATION_SIMULATED_CONNECTION_H_
#define TESTS_SIMULATION_SIMULATED_CONNECTION_H_

#include "common/exchange/in_process_endpoint.h"
#include "common/exchange/parameter_endpoint.h"
#include "tests/simulation/simulated_network.h"
#include "tests/simulation/simulated_process.h"

namespace capstan {

// A worker's connection to a server over the simulated network. A gradient is sent when it has left
// the worker's link, one latency before the server has it. When destroyed, what is open is
// UNAVAILABLE.
class SimulatedConnection : public ParameterEndpoint {
 public:
  // All outlive the connection, and what it has sent.
  SimulatedConnection(SimulatedNetwork* network, SimulatedProcess* worker, SimulatedProcess* server,
                      ParameterEndpoint* endpoint)
      : path_(network, worker, server, endpoint), open_(&path_) {}

  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override {
    open_.Exchange(std::move(request), std::move(delivered), std::move(done));
  }

 private:
  // There and back.
  class Path : public ParameterEndpoint {
   public:
    Path(SimulatedNetwork* network, SimulatedProcess* worker, SimulatedProcess* server,
         ParameterEndpoint* endpoint)
        : network_(network), worker_(worker), server_(server), endpoint_(endpoint) {}
    void Exchange(ExchangeRequest request, DeliveredCallback delivered,
                  ReplyCallback done) override;

   private:
    SimulatedNetwork* const network_;
    SimulatedProcess* const worker_;
    SimulatedProcess* const server_;
    ParameterEndpoint* const endpoint_;
  };

  Path path_;
  InProcessEndpoint open_;  // an answer that comes after the end goes nowhere
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SIMULATED_CONNECTION_H_
