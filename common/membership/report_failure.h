#ifndef COMMON_MEMBERSHIP_REPORT_FAILURE_H_
#define COMMON_MEMBERSHIP_REPORT_FAILURE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Tells the coordinator why a registered member cannot go on, so that the job ends with that
// reason. Blocks until it has been told, or cannot be. An ABORTED member has it from the
// coordinator.
void ReportFailure(CoordinatorEndpoint& coordinator, v1::HeartbeatRequest::Role role, uint32_t id,
                   Incarnation incarnation, const absl::Status& status, Clock& clock);

// The same for a process that has not registered.
void ReportEarlyFailure(CoordinatorEndpoint& coordinator, v1::HeartbeatRequest::Role role,
                        Incarnation incarnation, const absl::Status& status, Clock& clock);

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_REPORT_FAILURE_H_
