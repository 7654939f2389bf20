#ifndef SERVER_COORDINATOR_COORDINATOR_PROCESS_H_
#define SERVER_COORDINATOR_COORDINATOR_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/background_threads.h"
#include "common/base/mutex.h"
#include "common/base/one_shot.h"
#include "common/metrics/metrics_sources.h"
#include "common/process/process_context.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_server.h"
#include "proto/job.pb.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/grpc_coordinator_service.h"
#include "server/coordinator/job_outcome.h"
#include "server/page/live_page_server.h"
#include "server/page/log_ring.h"

namespace capstan {

// A coordinator with what it needs around it in its process: keys, files, listeners for members,
// probes, metrics and browsers. Used by one thread.
class CoordinatorProcess {
 public:
  struct Options {
    v1::JobSpec job;                  // Required; valid
    ProcessContext::Options context;  // `listens` and `waits_for` do not count
    std::string listen;               // Required: host:port for members
    uint32_t max_connections = 0;     // 0: enough for the job's members
    std::string http_listen;          // host:port of the page for browsers; empty: there is none
    std::string state;                // folder of the job's state; empty: it is not kept
    bool takes_over = false;          // although another coordinator may still be there
    // Hears on any thread that the job has ended: outcome() does not block any more. Or that this
    // coordinator must end: `lost()`. Required.
    std::function<void()> on_end;
  };

  // Members can register once it returns. INVALID_ARGUMENT for flags and jobs that are wrong.
  static absl::StatusOr<std::unique_ptr<CoordinatorProcess>> Start(Options options);
  ~CoordinatorProcess();

  const std::string& address() const { return server_->address(); }
  bool has_page() const { return page_ != nullptr; }

  bool has_ended() const { return outcome_.is_set(); }
  // Waits until every live member knows the end, or one lease after the end.
  JobOutcome outcome() { return outcome_.Wait(); }
  // Why this coordinator must end although the job may go on; OK: it has not been so.
  absl::Status lost() const;
  // Ends the job, because this process is to end.
  void Interrupt(const std::string& reason);
  // Afterwards nobody is answered. Called once, after the end.
  void Stop();
  // After Stop, once the outcome is written down: nobody is to go on with the job's state.
  void FinishState();

 private:
  CoordinatorProcess(Options options, std::unique_ptr<LogRing> log,
                     std::unique_ptr<ProcessContext> context);

  absl::Status Open();
  absl::Status MakeCoordinator();
  void NoteLost(absl::Status status);
  absl::Status StartPage();
  absl::Status StartServer();

  const Options options_;
  const std::unique_ptr<LogRing> log_;  // of the page; null without
  const std::unique_ptr<ProcessContext> context_;
  CallGuard guard_;
  MetricsSources::Registration info_;
  OneShot<JobOutcome> outcome_;
  mutable Mutex mu_;
  absl::Status lost_ ABSL_GUARDED_BY(mu_);
  BackgroundThreads files_;
  BackgroundThreads saving_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<LivePageServer> page_;
  std::unique_ptr<GrpcCoordinatorService> service_;
  std::unique_ptr<GrpcServer> server_;
  MetricsSources::Registration counts_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_COORDINATOR_PROCESS_H_
