#ifndef WORKER_RUNTIME_REGISTER_WORKER_H_
#define WORKER_RUNTIME_REGISTER_WORKER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// Registers a worker that may take a lost one's place. While all others are live, asks again every
// heartbeat interval, until the lease of one that was lost before must have run out: then
// RESOURCE_EXHAUSTED. Else the coordinator's errors. Blocks; for a process's own main thread.
absl::StatusOr<WorkerId> RegisterWorker(const v1::JobSpec& job, Incarnation incarnation,
                                        const std::vector<v1::TableSpec>& tables,
                                        CoordinatorEndpoint& coordinator, Clock& clock);

}  // namespace capstan

#endif  // WORKER_RUNTIME_REGISTER_WORKER_H_
