#include "common/membership/report_failure.h"

#include <glog/logging.h>

#include <string>

#include "common/membership/await_reply.h"

namespace capstan {

void ReportFailure(CoordinatorEndpoint& coordinator, v1::HeartbeatRequest::Role role, uint32_t id,
                   Incarnation incarnation, const absl::Status& status, Clock& clock) {
  if (absl::IsAborted(status)) return;
  v1::ReportFailureRequest request;
  request.set_role(role);
  request.set_id(id);
  request.set_incarnation(incarnation.value());
  request.set_reason(std::string(status.message()));
  const auto reply = AwaitReply(coordinator, &CoordinatorEndpoint::ReportFailure, request, clock);
  if (!reply.ok()) LOG(WARNING) << "could not tell the coordinator: " << reply.status();
}

}  // namespace capstan
