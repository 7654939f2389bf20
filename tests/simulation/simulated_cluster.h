#ifndef TESTS_SIMULATION_SIMULATED_CLUSTER_H_
#define TESTS_SIMULATION_SIMULATED_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/random.h"
#include "common/base/simulated_clock.h"
#include "common/history/history_log.h"
#include "common/history/recording_endpoint.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/job_outcome.h"
#include "server/service/parameter_server.h"
#include "tests/simulation/membership_recorder.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_network.h"
#include "tests/simulation/simulated_process.h"

namespace capstan {

struct SimulationResult {
  std::vector<v1::HistoryRecord> records;
  std::optional<JobOutcome> outcome;  // none: the job had not ended when its time was up
  bool is_registering = false;        // and it still waited for members that were to register
  absl::Duration duration;            // virtual, to the end of the job
  uint64_t messages = 0;
};

// A whole job in virtual time: the real coordinator, servers and workers in one program, of which
// one thread runs at a time; only what workers compute is a script. Used once, by one thread.
class SimulatedCluster {
 public:
  explicit SimulatedCluster(const Scenario& scenario);
  ~SimulatedCluster();

  // The same for the same scenario, byte for byte.
  SimulationResult Run();

 private:
  // A process, and what it runs.
  struct Member {
    explicit Member(SimulatedClock* world) : process(world) {}
    SimulatedProcess process;
    std::unique_ptr<CoordinatorEndpoint> coordinator;
    std::unique_ptr<ParameterServer> server;  // of a server
    RecordingEndpoint::Recording recording;   // of a worker
  };

  void WriteHeader();
  std::unique_ptr<Member> StartMember(uint64_t seed);
  void StartServer(uint32_t index);
  // A thread of the server stands still before a shard's lock, sometimes, while a pause of the
  // worker process `sender` that begins now lets another one take its place.
  void Interrupt(SimulatedProcess& server, Incarnation sender, absl::AnyInvocable<void()> go_on);
  void StartWorker(uint32_t index);
  // To the server that listens at `address`, for a worker.
  std::unique_ptr<ParameterEndpoint> Connect(Member& worker, const std::string& address);
  // Records the worker's exchanges, and leaves out pulls, as the scenario says.
  std::unique_ptr<ParameterEndpoint> Wrap(Member& worker,
                                          std::unique_ptr<ParameterEndpoint> exchanges);
  void Befall(const Fault& fault);
  void PauseFor(SimulatedProcess& process, absl::Duration pause);
  void BuryAll();

  const Scenario& scenario_;
  SimulatedClock world_;
  const absl::Time start_ = world_.Now();
  MemoryHistoryLog log_;
  SimulatedNetwork network_;
  Random interruptions_;
  SimulatedProcess coordinator_process_{&world_};
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<MembershipRecorder> membership_;
  std::vector<std::unique_ptr<Member>> servers_;
  std::vector<std::unique_ptr<Member>> workers_;
  SimulationResult result_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SIMULATED_CLUSTER_H_
