#include "common/process/process_context.h"

#include "common/base/process_limits.h"
#include "common/base/status_macros.h"
#include "common/membership/start_trace.h"
#include "common/net/http_listener.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<ProcessContext>> ProcessContext::Create(const Options& options) {
  RETURN_IF_ERROR(ExpectAddressSpace());
  auto context = std::unique_ptr<ProcessContext>(new ProcessContext(options));
  ASSIGN_OR_RETURN(context->security_, GrpcSecurity::Open({options.keys, options.insecure,
                                                           &context->clock_, options.listens}));
  return context;
}

absl::Status ProcessContext::Listen() {
  ASSIGN_OR_RETURN(
      listeners_, StartProcessListeners(options_.health_listen, options_.metrics_listen, readiness_,
                                        metrics_, &clock_));
  return absl::OkStatus();
}

uint64_t ProcessContext::ListenerConnections() const {
  const int ports = !options_.health_listen.empty() + !options_.metrics_listen.empty();
  return HttpListener::kMaxConnections * ports;
}

absl::Status ProcessContext::StartTrace(const std::string& path, CoordinatorEndpoint& coordinator) {
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(tracer_, capstan::StartTrace(path, coordinator, &clock_));
  return absl::OkStatus();
}

absl::Status ProcessContext::Finish() {
  return tracer_ == nullptr ? absl::OkStatus() : tracer_->Finish();
}

}  // namespace capstan
