#ifndef TESTS_CLUSTER_LOCAL_CLUSTER_H_
#define TESTS_CLUSTER_LOCAL_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/job.pb.h"
#include "server/coordinator/job_outcome.h"
#include "tests/cluster/cluster_transport.h"
#include "worker/engine/cpu_engine.h"
#include "worker/engine/engine.h"
#include "worker/runtime/job_setup.h"

namespace capstan {

// Faults of every worker's connections, as probabilities for each exchange.
struct ClusterFaults {
  double drop = 0;
  double duplicate = 0;
  double delay = 0;
};

struct ClusterResult {
  JobOutcome outcome;
  std::vector<absl::Status> servers;  // the results of Run
  std::vector<absl::Status> workers;
  int64_t faults_injected = 0;
};

// Runs a whole job in this process to its end, with a thread for each server and worker. Each
// counts as a machine of its own. Calls `on_start` before they start; it may keep the coordinator
// until the first thread ends.
ClusterResult RunCluster(const v1::JobSpec& job, ClusterTransport& transport, Clock& clock,
                         const ClusterFaults& faults = {},
                         const EngineFactory& make_engine = MakeCpuEngine,
                         const std::function<void(CoordinatorEndpoint&)>& on_start = nullptr);

// The same with workers that have a rank, each prepared in its own way.
ClusterResult RunRankedCluster(const v1::JobSpec& job, ClusterTransport& transport, Clock& clock,
                               const ClusterFaults& faults,
                               const std::function<JobPreparer(uint32_t rank)>& prepare);

// The path of the checkpoint of this step in the folder `dir`. Ends the process if there is none.
std::string CheckpointOfStep(const std::string& dir, int64_t step);
// The folder of the complete checkpoint with the smallest step; there must be one.
std::string FirstCheckpoint(const std::string& dir);

}  // namespace capstan

#endif  // TESTS_CLUSTER_LOCAL_CLUSTER_H_
