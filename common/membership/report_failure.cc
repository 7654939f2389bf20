#include "common/membership/report_failure.h"

#include <glog/logging.h>

#include <string>
#include <utility>

#include "common/membership/await_reply.h"

namespace capstan {
namespace {

void Report(v1::ReportFailureRequest request, CoordinatorEndpoint& coordinator,
            const absl::Status& status, Clock& clock) {
  if (absl::IsAborted(status)) return;
  request.set_reason(std::string(status.message()));
  const auto reply =
      AwaitReply(coordinator, &CoordinatorEndpoint::ReportFailure, std::move(request), clock);
  if (!reply.ok()) LOG(WARNING) << "could not tell the coordinator: " << reply.status();
}

}  // namespace

void ReportFailure(CoordinatorEndpoint& coordinator, v1::HeartbeatRequest::Role role, uint32_t id,
                   Incarnation incarnation, const absl::Status& status, Clock& clock) {
  v1::ReportFailureRequest request;
  request.set_role(role);
  request.set_id(id);
  request.set_incarnation(incarnation.value());
  Report(std::move(request), coordinator, status, clock);
}

void ReportEarlyFailure(CoordinatorEndpoint& coordinator, v1::HeartbeatRequest::Role role,
                        Incarnation incarnation, const absl::Status& status, Clock& clock) {
  v1::ReportFailureRequest request;
  request.set_role(role);
  request.set_incarnation(incarnation.value());
  request.set_before_registering(true);
  Report(std::move(request), coordinator, status, clock);
}

}  // namespace capstan
