#ifndef TESTS_BENCHMARK_COORDINATOR_SIMULATED_MEMBER_H_
#define TESTS_BENCHMARK_COORDINATOR_SIMULATED_MEMBER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/member_agent.h"
#include "proto/coordinator_service.pb.h"
#include "tests/benchmark/coordinator/seen_views.h"

namespace capstan {

// A server or worker without shards and without training, which talks to the coordinator as a real
// one does, over a connection of its own. A server acts on each view at once, and reports the
// second copies of all its shards as whole. A worker does a step between two heartbeats.
// Thread-safe.
class SimulatedMember {
 public:
  struct Options {
    std::string coordinator;                 // Required: its host:port
    size_t index = 0;                        // Required: of this member among all
    bool is_server = false;                  // otherwise it is a worker
    std::vector<v1::TableSpec> tables = {};  // Required for workers
    SeenViews* seen = nullptr;               // Required; outlives the member
    Clock* clock = nullptr;                  // Required; outlives the member
  };

  explicit SimulatedMember(Options options);
  // Vanishes.
  ~SimulatedMember();

  // Begins to register, and then to send heartbeats. Does not wait. Called once.
  void Start();
  // Ends like a killed process: its connection is closed, without a word to the coordinator.
  void Vanish();

 private:
  void Register(const v1::JobSpec& job);
  void BeginHeartbeats(uint32_t id);
  void OnView(const v1::JobView& view);
  void AddReport(v1::HeartbeatRequest& heartbeat) const;
  v1::Progress DoStep();

  const Options options_;
  const Incarnation incarnation_;
  const absl::Time started_at_;

  Mutex mu_;
  bool has_vanished_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<CoordinatorEndpoint> coordinator_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<MemberAgent> agent_ ABSL_GUARDED_BY(mu_);

  // Of the agent's callbacks, which run one at a time.
  uint32_t id_ = 0;
  v1::CopyReport copies_;
  int64_t steps_done_ = 0;
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COORDINATOR_SIMULATED_MEMBER_H_
