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

  void GetJob(v1::GetJobRequest request, Callback<v1::GetJobReply> done) override;
  void RegisterServer(v1::RegisterServerRequest request, Callback<v1::RegisterReply> done) override;
  void RegisterWorker(v1::RegisterWorkerRequest request, Callback<v1::RegisterReply> done) override;
  void Heartbeat(v1::HeartbeatRequest request, Callback<v1::HeartbeatReply> done) override;
  void ReportFailure(v1::ReportFailureRequest request,
                     Callback<v1::ReportFailureReply> done) override;
  void ReportResult(v1::ReportResultRequest request, Callback<v1::ReportResultReply> done) override;
  void GetStatus(v1::GetStatusRequest request, Callback<v1::GetStatusReply> done) override;
  void SetConsistency(v1::SetConsistencyRequest request,
                      Callback<v1::SetConsistencyReply> done) override;
  void Checkpoint(v1::CheckpointRequest request, Callback<v1::CheckpointReply> done) override;
  void ReadClock(v1::ReadClockRequest request, Callback<v1::ReadClockReply> done) override;

 private:
  template <typename Request, typename Reply>
  using Method = void (CoordinatorEndpoint::*)(Request, Callback<Reply>);
  // Calls without an answer yet. It outlives the connection if an answer comes late.
  struct Open {
    uint64_t last_id = 0;
    std::map<uint64_t, absl::AnyInvocable<void(absl::Status)>> calls;
  };

  template <typename Request, typename Reply>
  void Call(Method<Request, Reply> method, Request request, Callback<Reply> done);

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
