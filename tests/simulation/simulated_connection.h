#ifndef TESTS_SIMULATION_SIMULATED_CONNECTION_H_
#define TESTS_SIMULATION_SIMULATED_CONNECTION_H_

#include "common/exchange/in_process_endpoint.h"
#include "common/exchange/parameter_endpoint.h"
#include "tests/simulation/simulated_network.h"
#include "tests/simulation/simulated_process.h"

namespace capstan {

// A worker's connection to a server over the simulated network. `delivered` runs when the gradient
// has left the worker's link, one latency before the server has it. The destructor answers open
// exchanges UNAVAILABLE.
class SimulatedConnection : public ParameterEndpoint {
 public:
  // All arguments outlive the connection and its messages.
  SimulatedConnection(SimulatedNetwork* network, SimulatedProcess* worker, SimulatedProcess* server,
                      ParameterEndpoint* endpoint)
      : path_(network, worker, server, endpoint), open_(&path_) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    open_.Exchange(std::move(request), std::move(delivered), std::move(done));
  }

 private:
  // The way there and back.
  class Path : public ParameterEndpoint {
   public:
    Path(SimulatedNetwork* network, SimulatedProcess* worker, SimulatedProcess* server,
         ParameterEndpoint* endpoint)
        : network_(network), worker_(worker), server_(server), endpoint_(endpoint) {}
    void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                  ReplyCallback done) override;

   private:
    SimulatedNetwork* const network_;
    SimulatedProcess* const worker_;
    SimulatedProcess* const server_;
    ParameterEndpoint* const endpoint_;
  };

  Path path_;
  InProcessEndpoint open_;  // drops answers after the end
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SIMULATED_CONNECTION_H_
