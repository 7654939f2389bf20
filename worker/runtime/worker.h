#ifndef WORKER_RUNTIME_WORKER_H_
#define WORKER_RUNTIME_WORKER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/routing/server_address.h"
#include "common/trace/tracer.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/runtime/job_setup.h"

namespace capstan {

// One worker of a job, without its transport: registers, also in the place of a worker that was
// lost, trains its share of the data, evaluates when the coordinator asks for it, and leaves when
// the job ends. Run by one thread, once.
class Worker {
 public:
  // Connects to a server of the job.
  using EndpointFactory = absl::AnyInvocable<std::unique_ptr<ParameterEndpoint>(
      const v1::JobSpec& job, ServerId server, const ServerAddress& address)>;

  using ExchangeWrapper = absl::AnyInvocable<std::unique_ptr<ParameterEndpoint>(
      const v1::JobSpec& job, std::unique_ptr<ParameterEndpoint> exchanges)>;

  struct Options {
    Clock* clock = nullptr;                      // All of these are required.
    CoordinatorEndpoint* coordinator = nullptr;  // Both outlive the worker.
    Incarnation incarnation;
    EndpointFactory connect;
    JobPreparer prepare;
    // Optional: is told each view of the job, newer than all before.
    absl::AnyInvocable<void(const v1::JobView&)> on_view;
    // Optional: wraps all exchanges of the worker, as a recorder does.
    ExchangeWrapper wrap;
    // Optional: what the worker does. Outlives it.
    Tracer* tracer = nullptr;
  };

  explicit Worker(Options options) : options_(std::move(options)) {}

  // Works until the job has ended. ABORTED with the reason when the job failed; UNAVAILABLE when
  // the coordinator or a server cannot be reached; RESOURCE_EXHAUSTED when the job had no place for
  // another worker; else the worker's own error, which the coordinator has been told,
  // whether the worker had registered or not.
  absl::Status Run();

 private:
  // As the registered worker `id`, to the end of the job.
  absl::Status Work(WorkerId id, const v1::GetJobReply& job, JobSetup& setup);

  Options options_;
};

}  // namespace capstan

#endif  // WORKER_RUNTIME_WORKER_H_
