#include "worker/runtime/worker_process.h"

#include <utility>

#include "common/base/program.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/membership/grpc_coordinator_client.h"
#include "common/membership/member_agent.h"
#include "common/membership/start_trace.h"
#include "worker/client/connect_to_servers.h"
#include "worker/runtime/worker.h"

namespace capstan {

WorkerProcess::WorkerProcess(Options options)
    : options_(std::move(options)),
      incarnation_(SystemRandom()),
      readiness_(absl::UnavailableError("waits for the coordinator")) {}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Create(Options options) {
  auto process = std::unique_ptr<WorkerProcess>(new WorkerProcess(std::move(options)));
  const Options& given = process->options_;
  ASSIGN_OR_RETURN(process->security_,
                   GrpcSecurity::Open({given.keys, given.insecure, &process->clock_}));
  ASSIGN_OR_RETURN(
      process->coordinator_,
      ConnectToCoordinator(given.coordinator, given.rpc_deadline, &process->clock_,
                           Random(SystemRandom()), process->security_, given.connect_deadline));
  if (const absl::Status status = process->Open(); !status.ok()) {
    ReportEarlyFailure(*process->coordinator_, v1::HeartbeatRequest::WORKER, process->incarnation_,
                       status, process->clock_);
    return status;
  }
  return process;
}

absl::Status WorkerProcess::Open() {
  ASSIGN_OR_RETURN(
      listeners_, StartProcessListeners(options_.health_listen, options_.metrics_listen, readiness_,
                                        metrics_, &clock_));
  return OpenRecords();
}

absl::Status WorkerProcess::OpenRecords() {
  if (!options_.record_history.empty()) {
    ASSIGN_OR_RETURN(recorder_,
                     HistoryRecorder::Create(options_.record_history, incarnation_, &clock_));
  }
  if (!options_.trace.empty()) {
    ASSIGN_OR_RETURN(tracer_, StartTrace(options_.trace, *coordinator_, &clock_));
  }
  return absl::OkStatus();
}

absl::Status WorkerProcess::Run(JobPreparer prepare) {
  Worker::Options options;
  options.clock = &clock_;
  options.coordinator = coordinator_.get();
  options.incarnation = incarnation_;
  options.host = HostAndNetwork();
  options.rank = options_.rank;
  options.on_registered = options_.on_registered;
  options.metrics = &metrics_;
  options.end = options_.end;
  options.tracer = tracer_.get();
  options.on_readiness = [this](absl::Status status) { readiness_.Set(std::move(status)); };
  const auto used = std::make_shared<TransportsUsed>();
  options.transport = [used] { return used->Text(); };
  ServerConnector connect;
  options.connect = [&](const v1::JobSpec& job, ServerId, const ServerAddress& address) {
    if (!connect) {
      connect = ConnectToServers({job.transport(),
                                  &clock_,
                                  options_.on_ucx_blocked,
                                  {security_, job.name(), incarnation_.value()},
                                  used});
    }
    return connect(address.grpc);
  };
  options.prepare = std::move(prepare);
  if (recorder_ != nullptr) {
    options.wrap = [this](const v1::JobSpec& job, std::unique_ptr<ParameterEndpoint> exchanges) {
      return recorder_->Record(job, std::move(exchanges));
    };
    options.on_view = [this](const v1::JobView& view) { recorder_->NoteView(view); };
  }
  const absl::Status status = Worker(std::move(options)).Run();
  absl::Status kept = recorder_ == nullptr ? absl::OkStatus() : recorder_->Finish();
  if (tracer_ != nullptr) kept.Update(tracer_->Finish());
  return status.ok() ? kept : status;
}

}  // namespace capstan
