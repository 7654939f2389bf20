#ifndef WORKER_RUNTIME_WORKER_H_
#define WORKER_RUNTIME_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/end_request.h"
#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/metrics/metrics_sources.h"
#include "common/routing/routing_table.h"
#include "common/trace/tracer.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/runtime/job_setup.h"

namespace capstan {

struct RegisterOptions {
  std::optional<uint32_t> rank;                 // v1::RegisterWorkerRequest::rank
  EndRequest* end = nullptr;                    // asks the worker to give up; null: nobody does
  bool is_replaceable = false;                  // v1::RegisterWorkerRequest::is_replaceable
  const v1::LocalSteps* local_steps = nullptr;  // null: none
  std::string processes;                        // v1::RegisterWorkerRequest::processes
};

// Registers a worker, possibly in the place of a lost one. Its engine has `own_arrays` arrays of
// own state. `host` is v1::RegisterWorkerRequest::host. While the job has no free place, asks
// again, at least every heartbeat interval. RESOURCE_EXHAUSTED once the lease of any worker lost
// before the call must have run out, also if the coordinator was away meanwhile. CANCELLED if it
// was asked to end. Otherwise the coordinator's errors. Blocks; for the main thread alone.
absl::StatusOr<WorkerId> RegisterWorker(const v1::JobSpec& job, Incarnation incarnation,
                                        const std::vector<v1::TableSpec>& tables,
                                        uint32_t own_arrays, const std::string& host,
                                        CoordinatorEndpoint& coordinator, Clock& clock,
                                        const RegisterOptions& options = {});

// One worker of a job, without its transport. Registers, possibly in the place of a lost worker,
// trains on its share of the data, evaluates at the coordinator's request, and leaves at the job's
// end. Run by one thread, once.
class Worker {
 public:
  // Connects to a server of the job.
  using EndpointFactory = absl::AnyInvocable<std::unique_ptr<ParameterEndpoint>(
      const v1::JobSpec& job, ServerId server, const ServerAddress& address)>;

  using ExchangeWrapper = absl::AnyInvocable<std::unique_ptr<ParameterEndpoint>(
      const v1::JobSpec& job, std::unique_ptr<ParameterEndpoint> exchanges)>;

  // Another process is the worker: it has registered, holds the lease, tells progress and results.
  // This one only exchanges some of its tables, as the same worker with the same incarnation.
  struct PartOf {
    WorkerId worker;
    uint32_t part = 0;  // Required: above 0, and distinct among the worker's processes
  };

  struct Options {
    // Required, up to `prepare`. Every pointer outlives the worker.
    Clock* clock = nullptr;
    CoordinatorEndpoint* coordinator = nullptr;
    Incarnation incarnation;
    EndpointFactory connect;
    JobPreparer prepare;
    // Optional: gets each view of the job, if newer than all before.
    absl::AnyInvocable<void(const v1::JobView&)> on_view;
    // Optional: wraps all exchanges of the worker, as a recorder does.
    ExchangeWrapper wrap;
    // Optional: v1::RegisterWorkerRequest::host and rank.
    std::string host;
    std::optional<uint32_t> rank;
    // Optional: this process is a part of a worker, whose incarnation it has.
    std::optional<PartOf> part_of;
    std::string processes;  // v1::RegisterWorkerRequest::processes
    // Optional: hears of the worker's id.
    std::function<void(WorkerId)> on_registered = [](WorkerId) {};
    // Optional: hears whether the worker trains. UNAVAILABLE: the message says what it waits for.
    std::function<void(absl::Status)> on_readiness = [](const absl::Status&) {};
    // Optional: v1::Progress::transport. Called on any thread.
    std::function<std::string()> transport = [] { return ""; };
    // Optional: traces the worker.
    Tracer* tracer = nullptr;
    // Optional: gets the worker's counts.
    MetricsSources* metrics = nullptr;
    // Optional: ParameterClient::Options::coordinator_last_away.
    std::function<absl::Time()> coordinator_last_away = [] { return absl::InfinitePast(); };
    // Optional: asks the worker to leave. It awaits that once it is registered.
    EndRequest* end = nullptr;
  };

  explicit Worker(Options options) : options_(std::move(options)) {}

  // Works until the job has ended. ABORTED with the reason when the job failed; UNAVAILABLE when
  // the coordinator or a server cannot be reached; RESOURCE_EXHAUSTED when the job had no place for
  // another worker; CANCELLED when it was asked to end and has left, or never had a place. Any
  // other error is the worker's own, and the coordinator has been told of it, even before the
  // worker had registered.
  absl::Status Run();

 private:
  // As the registered worker `id`, to the end of the job.
  absl::Status Work(WorkerId id, const v1::GetJobReply& job, JobSetup& setup);

  Options options_;
};

}  // namespace capstan

#endif  // WORKER_RUNTIME_WORKER_H_
