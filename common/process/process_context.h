#ifndef COMMON_PROCESS_PROCESS_CONTEXT_H_
#define COMMON_PROCESS_PROCESS_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/readiness.h"
#include "common/base/real_clock.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/metrics/metrics_sources.h"
#include "common/process/process_listeners.h"
#include "common/trace/tracer.h"
#include "common/transport/grpc/grpc_security.h"

namespace capstan {

// What the parts of a coordinator, a server or a worker share in its process: clock, keys, probes,
// metrics and a trace. Its program makes it first and ends it last. One thread calls Listen,
// StartTrace and Finish, in this order, and tracer() after StartTrace. The rest is thread-safe.
class ProcessContext {
 public:
  struct Options {
    std::string keys;            // folder; empty: plaintext
    bool insecure = false;       // as the flag
    bool listens = false;        // others call this process
    std::string health_listen;   // host:port for probes; empty: nobody listens
    std::string metrics_listen;  // host:port; empty: nobody listens
    std::string waits_for;       // Required: what probes hear first, as in "waits for a place"
  };

  // Opens the keys. The errors are those of ExpectAddressSpace and GrpcSecurity::Open.
  static absl::StatusOr<std::unique_ptr<ProcessContext>> Create(const Options& options);

  // Answers probes and metrics. The errors are those of StartProcessListeners.
  absl::Status Listen();
  // Starts a trace in the file at `path`; empty: nothing is traced. The errors are those of
  // capstan::StartTrace.
  absl::Status StartTrace(const std::string& path, CoordinatorEndpoint& coordinator);
  // Most connections to the ports of Listen.
  uint64_t ListenerConnections() const;
  // Ends the trace. UNAVAILABLE: it is not whole.
  absl::Status Finish();

  Clock& clock() { return clock_; }
  const SecurityPointer& security() const { return security_; }
  Readiness& readiness() { return readiness_; }
  MetricsSources& metrics() { return metrics_; }
  Tracer* tracer() { return tracer_.get(); }  // null: nothing is traced

 private:
  explicit ProcessContext(const Options& options)
      : options_(options), readiness_(absl::UnavailableError(options.waits_for)) {}

  const Options options_;
  RealClock clock_;
  SecurityPointer security_;
  Readiness readiness_;
  MetricsSources metrics_;
  std::optional<ProcessListeners> listeners_;
  std::unique_ptr<Tracer> tracer_;
};

}  // namespace capstan

#endif  // COMMON_PROCESS_PROCESS_CONTEXT_H_
