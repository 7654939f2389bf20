#ifndef WORKER_RUNTIME_WORKER_PROCESS_H_
#define WORKER_RUNTIME_WORKER_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/end_request.h"
#include "common/base/ids.h"
#include "common/base/readiness.h"
#include "common/base/real_clock.h"
#include "common/history/history_recorder.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/metrics/metrics_sources.h"
#include "common/trace/tracer.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/process_listeners.h"
#include "worker/runtime/job_setup.h"

namespace capstan {

// What a worker needs around it in its process: keys, the coordinator, connections to servers,
// listeners for probes and metrics, records. Used by one thread.
class WorkerProcess {
 public:
  struct Options {
    std::string coordinator;                          // Required: host:port
    absl::Duration rpc_deadline = absl::Seconds(30);  // of retries to reach the coordinator
    absl::Duration connect_deadline;                  // until its first answer, if longer
    std::string keys;                                 // folder; empty: plaintext
    bool insecure = false;                            // as the flag of capstan_worker
    std::string health_listen;                        // host:port; empty: nobody listens
    std::string metrics_listen;                       // host:port; empty: nobody listens
    std::string record_history;                       // folder; empty: nothing is recorded
    std::string trace;                                // file; empty: nothing is traced
    std::optional<uint32_t> rank;                     // none: the next free id
    EndRequest* end = nullptr;                        // outlives this; null: nobody asks to leave
    // ConnectOptions::on_ucx_blocked. Required.
    std::function<void(const absl::Status&)> on_ucx_blocked;
    std::function<void(WorkerId)> on_registered = [](WorkerId) {};
  };

  // Opens keys, listeners and records. The coordinator hears of a failure, if it can be reached.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Create(Options options);

  Clock& clock() { return clock_; }
  CoordinatorEndpoint& coordinator() { return *coordinator_; }
  Incarnation incarnation() const { return incarnation_; }
  Tracer* tracer() { return tracer_.get(); }  // null: nothing is traced

  // Worker::Run, then ends the records. Called once.
  absl::Status Run(JobPreparer prepare);

 private:
  explicit WorkerProcess(Options options);

  absl::Status Open();
  absl::Status OpenRecords();

  Options options_;
  RealClock clock_;
  const Incarnation incarnation_;
  SecurityPointer security_;
  std::unique_ptr<CoordinatorEndpoint> coordinator_;
  Readiness readiness_;
  MetricsSources metrics_;
  std::optional<ProcessListeners> listeners_;
  std::unique_ptr<HistoryRecorder> recorder_;  // null: nothing is recorded
  std::unique_ptr<Tracer> tracer_;
};

}  // namespace capstan

#endif  // WORKER_RUNTIME_WORKER_PROCESS_H_
