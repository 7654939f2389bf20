#include "worker/runtime/worker.h"

#include <glog/logging.h>

#include <utility>

#include "common/base/status_macros.h"
#include "common/membership/await_reply.h"
#include "common/membership/report_failure.h"
#include "common/routing/server_address.h"
#include "worker/runtime/job_setup.h"
#include "worker/runtime/training_session.h"

namespace capstan {

absl::Status Worker::Run() {
  CoordinatorEndpoint& coordinator = *options_.coordinator;
  Clock& clock = *options_.clock;
  ASSIGN_OR_RETURN(const v1::GetJobReply job,
                   AwaitReply(coordinator, &CoordinatorEndpoint::GetJob, {}, clock));
  ASSIGN_OR_RETURN(JobSetup setup, PrepareJob(job.job(), options_.make_engine, &clock));

  v1::RegisterWorkerRequest request;
  request.set_incarnation(options_.incarnation.value());
  for (const v1::TableSpec& table : setup.engine->tables()) *request.add_tables() = table;
  ASSIGN_OR_RETURN(const v1::RegisterReply registered,
                   AwaitReply(coordinator, &CoordinatorEndpoint::RegisterWorker, request, clock));
  LOG(INFO) << "registered as worker " << registered.id() << "; computes on "
            << setup.engine->device_name() << "; " << setup.data.train.size() << " training and "
            << setup.data.test.size() << " test samples";

  TrainingSession::Options session;
  session.clock = &clock;
  session.coordinator = &coordinator;
  session.worker = WorkerId(registered.id());
  session.incarnation = options_.incarnation;
  session.job = &job;
  session.setup = &setup;
  session.connect = [this, &job](ServerId server, const ServerAddress& address) {
    return options_.connect(job.job(), server, address);
  };
  session.on_view = std::move(options_.on_view);
  session.refreshed_bytes = std::move(options_.refreshed_bytes);
  absl::Status status = TrainingSession(std::move(session)).Run();
  if (!status.ok()) {
    ReportFailure(coordinator, v1::HeartbeatRequest::WORKER, registered.id(), options_.incarnation,
                  status, clock);
  }
  return status;
}

}  // namespace capstan
