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
#include "common/history/history_recorder.h"
#include "common/membership/coordinator_absence.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/metrics/metrics_sources.h"
#include "common/process/process_context.h"
#include "common/trace/tracer.h"
#include "worker/client/connect_to_servers.h"
#include "worker/runtime/job_setup.h"
#include "worker/runtime/worker.h"

namespace capstan {

// What a worker needs around it in its process: keys, the coordinator, connections to servers,
// listeners for probes and metrics, records. Used by one thread.
class WorkerProcess {
 public:
  struct Options {
    ProcessContext::Options context;                  // `listens` and `waits_for` do not count
    std::string coordinator;                          // Required: host:port,...
    absl::Duration rpc_deadline = absl::Seconds(30);  // of retries to reach the coordinator
    absl::Duration connect_deadline;                  // until its first answer, if longer
    std::string record_history;                       // folder; empty: nothing is recorded
    std::string trace;                                // file; empty: nothing is traced
    std::optional<uint32_t> rank;                     // none: the next free id
    // This process is a part of the worker with this incarnation; none: it is one by itself.
    std::optional<Worker::PartOf> part_of;
    Incarnation incarnation;    // of part_of
    std::string processes;      // Worker::Options::processes
    EndRequest* end = nullptr;  // outlives this; null: nobody asks to leave
    // Another reason than `end` for RetryingCoordinator::Options::is_ending; null: there is none.
    std::function<bool()> is_ending;
    // ConnectOptions::on_ucx_blocked. Required.
    std::function<void(const absl::Status&)> on_ucx_blocked;
    std::function<void(WorkerId)> on_registered = [](WorkerId) {};
  };

  // Opens keys, listeners and records. The coordinator hears of a failure, if it can be reached.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Create(Options options);

  Clock& clock() { return context_->clock(); }
  CoordinatorEndpoint& coordinator() { return *coordinator_; }
  Incarnation incarnation() const { return incarnation_; }
  Tracer* tracer() { return context_->tracer(); }  // null: nothing is traced

  // Worker::Run, then ends the records. Called once.
  absl::Status Run(JobPreparer prepare);

 private:
  WorkerProcess(Options options, std::unique_ptr<ProcessContext> context);

  absl::Status Connect();
  absl::Status Open();
  Worker::Options WorkerOptions(JobPreparer prepare);

  const Options options_;
  const std::unique_ptr<ProcessContext> context_;
  CoordinatorAbsence absence_;
  std::unique_ptr<CoordinatorEndpoint> coordinator_;
  const Incarnation incarnation_;
  std::unique_ptr<HistoryRecorder> recorder_;  // null: nothing is recorded
  ServerConnector connect_;                    // made when the job is known
  const MetricsSources::Registration away_;
};

}  // namespace capstan

#endif  // WORKER_RUNTIME_WORKER_PROCESS_H_
