#include "worker/runtime/worker_process.h"

#include <utility>

#include "common/base/program.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/membership/grpc_coordinator_client.h"
#include "common/membership/member_agent.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Create(Options options) {
  options.context.listens = false;
  options.context.waits_for = "waits for the coordinator";
  ASSIGN_OR_RETURN(std::unique_ptr<ProcessContext> context,
                   ProcessContext::Create(options.context));
  auto process =
      std::unique_ptr<WorkerProcess>(new WorkerProcess(std::move(options), std::move(context)));
  RETURN_IF_ERROR(process->Connect());
  if (const absl::Status status = process->Open(); !status.ok()) {
    ReportEarlyFailure(*process->coordinator_, v1::HeartbeatRequest::WORKER, process->incarnation_,
                       status, process->clock());
    return status;
  }
  return process;
}

WorkerProcess::WorkerProcess(Options options, std::unique_ptr<ProcessContext> context)
    : options_(std::move(options)),
      context_(std::move(context)),
      absence_(&context_->clock()),
      incarnation_(options_.part_of.has_value() ? options_.incarnation
                                                : Incarnation(SystemRandom())),
      away_(AddCoordinatorAway(context_->metrics(), [this] { return absence_.away(); })) {}

absl::Status WorkerProcess::Connect() {
  CoordinatorOptions options = {options_.coordinator, options_.rpc_deadline};
  options.first_deadline = options_.connect_deadline;
  options.absence = &absence_;
  options.is_ending = [this] {
    return (options_.end != nullptr && options_.end->is_asked()) ||
           (options_.is_ending != nullptr && options_.is_ending());
  };
  options.security = context_->security();
  ASSIGN_OR_RETURN(coordinator_,
                   ConnectToCoordinator(std::move(options), &clock(), Random(SystemRandom())));
  return absl::OkStatus();
}

absl::Status WorkerProcess::Open() {
  RETURN_IF_ERROR(context_->Listen());
  if (!options_.record_history.empty()) {
    const uint32_t part = options_.part_of.has_value() ? options_.part_of->part : 0;
    ASSIGN_OR_RETURN(
        recorder_, HistoryRecorder::Create(options_.record_history, incarnation_, &clock(), part));
  }
  return context_->StartTrace(options_.trace, *coordinator_);
}

Worker::Options WorkerProcess::WorkerOptions(JobPreparer prepare) {
  Worker::Options options;
  options.clock = &clock();
  options.coordinator = coordinator_.get();
  options.incarnation = incarnation_;
  options.host = HostAndNetwork();
  options.rank = options_.rank;
  options.part_of = options_.part_of;
  options.processes = options_.processes;
  options.on_registered = options_.on_registered;
  options.metrics = &context_->metrics();
  options.coordinator_last_away = [this] { return absence_.last_away(); };
  options.end = options_.end;
  options.tracer = tracer();
  options.on_readiness = [this](absl::Status status) {
    context_->readiness().Set(std::move(status));
  };
  const auto used = std::make_shared<TransportsUsed>();
  options.transport = [used] { return used->Text(); };
  options.connect = [this, used](const v1::JobSpec& job, ServerId, const ServerAddress& address) {
    if (!connect_) {
      connect_ = ConnectToServers({TransportOf(job),
                                   &clock(),
                                   options_.on_ucx_blocked,
                                   {context_->security(), job.name(), incarnation_.value()},
                                   used});
    }
    return connect_(address.grpc);
  };
  options.prepare = std::move(prepare);
  if (recorder_ != nullptr) {
    options.wrap = [this](const v1::JobSpec& job, std::unique_ptr<ParameterEndpoint> exchanges) {
      return recorder_->Record(job, std::move(exchanges), absence_.patience());
    };
    options.on_view = [this](const v1::JobView& view) { recorder_->NoteView(view); };
  }
  return options;
}

absl::Status WorkerProcess::Run(JobPreparer prepare) {
  const absl::Status status = Worker(WorkerOptions(std::move(prepare))).Run();
  connect_ = nullptr;  // ends UCX, on this thread
  absl::Status kept = recorder_ == nullptr ? absl::OkStatus() : recorder_->Finish();
  kept.Update(context_->Finish());
  return status.ok() ? kept : status;
}

}  // namespace capstan
