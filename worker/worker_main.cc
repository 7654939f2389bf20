// capstan_worker: trains a share of a job's data against its parameter servers.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/end_request.h"
#include "common/base/flag_help.h"
#include "common/base/log_format.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/transport/grpc/grpc_setup.h"
#include "kernels/gemm.h"
#include "proto/job.pb.h"
#include "worker/engine/device_name.h"
#include "worker/models/sparse_training/prepare_stream_job.h"
#include "worker/models/updates/updates_engine.h"
#include "worker/runtime/job_setup.h"
#include "worker/runtime/make_engine.h"
#include "worker/runtime/worker_process.h"

ABSL_FLAG(std::string, coordinator, "",
          "Address of the job's coordinator. Several with commas between them are tried in turn. "
          "Required.");
ABSL_FLAG(
    double, rpc_deadline_seconds, 30,
    "Time of retries while the coordinator cannot be reached. If it keeps its state, it has the "
    "job's --coordinator_seconds once it has answered.");
ABSL_FLAG(double, connect_seconds, 0,
          "Time of retries until the coordinator answers for the first time, if it is longer than "
          "--rpc_deadline_seconds.");
ABSL_FLAG(std::string, keys, "",
          "Folder with this process's keys for TLS and the job's token (capstan keys makes one). "
          "None: plaintext.");
ABSL_FLAG(
    bool, insecure, false,
    "Plaintext, only in a network that you trust: with --keys calls prove the job's token, and "
    "UCX may connect hosts.");
ABSL_FLAG(std::string, device, "cpu",
          "Device for computing: cpu, cuda (the first GPU) or cuda:N (GPU number N, from 0). "
          "sparse_logistic_regression and deepfm compute on CPUs only.");
ABSL_FLAG(int32_t, rank, -1,
          "Id of this worker, from 0, or of the lost one whose place it takes. -1: the next free "
          "one.");
ABSL_FLAG(std::string, health_listen, "",
          "Address for probes over HTTP (/healthz, /readyz), without encryption. "
          "Ready: it is registered and trains. Port 0 takes a free one.");
ABSL_FLAG(std::string, log_format, "text",
          "Log on standard error: text, or json: an object a line with time, level, role, message "
          "and source, and id, step and reason where they are known.");
ABSL_FLAG(std::string, metrics_listen, "",
          "Address for metrics: /metrics has Prometheus's text format, without encryption. It is "
          "numbers and the job's name. Port 0 takes a free one.");
ABSL_FLAG(std::string, record_history, "",
          "Existing folder for a history of this worker's exchanges, for capstan check.");

ABSL_FLAG(std::string, trace, "",
          "File for a trace of this worker's work over time, for Perfetto, chrome://tracing or "
          "capstan trace.");

namespace capstan {
namespace {

constexpr char kUsage[] = R"(Usage: capstan_worker --coordinator=HOST:PORT [--device=cuda] [flags]

Trains a share of a job's data against its parameter servers. Started while the job trains, it takes
the place of a worker that was lost. After a SIGTERM it finishes its step, leaves, and ends with 143.
If it has done its steps, it stays to the job's end, and ends with 0.

)";

constexpr absl::string_view kCoordinator = "Its job";
constexpr absl::string_view kTrust = "Trust";
constexpr absl::string_view kMonitoring = "Probes, metrics and logs";
constexpr absl::string_view kRecords = "What is recorded";

constexpr ProgramFlag kFlags[] = {
    {kCoordinator, "coordinator", "HOST:PORT,..."},
    {kCoordinator, "rpc_deadline_seconds", "SECONDS"},
    {kCoordinator, "connect_seconds", "SECONDS"},
    {kCoordinator, "device", "DEVICE"},
    {kCoordinator, "rank", "N"},
    {kTrust, "keys", "DIR"},
    {kTrust, "insecure", ""},
    {kMonitoring, "health_listen", "HOST:PORT"},
    {kMonitoring, "metrics_listen", "HOST:PORT"},
    {kMonitoring, "log_format", "text|json"},
    {kRecords, "record_history", "DIR"},
    {kRecords, "trace", "FILE"},
};

constexpr char kName[] = "capstan_worker";

void EndWorker(const absl::Status& status) { EndProgram(kName, status); }

// The coordinator is not told: the job goes on without this process.
[[noreturn]] void RefuseJobForPrograms() {
  EndProgram(kName,
             absl::InvalidArgumentError(
                 "--coordinator: expected a job with a built-in model, got one whose workers are "
                 "programs of the user's (--model=program); start the program instead, with "
                 "CAPSTAN_COORDINATOR=HOST:PORT in its environment or by capstan run "
                 "--worker_command=COMMAND"),
             /*is_usage_error=*/true);
}

// Sets `has_begun` once the flags are known to be right.
absl::Status Work(const DeviceName& device, EndRequest* end, bool* has_begun) {
  WorkerProcess::Options options;
  options.coordinator = absl::GetFlag(FLAGS_coordinator);
  options.rpc_deadline = absl::Seconds(absl::GetFlag(FLAGS_rpc_deadline_seconds));
  options.connect_deadline = absl::Seconds(absl::GetFlag(FLAGS_connect_seconds));
  options.context.keys = absl::GetFlag(FLAGS_keys);
  options.context.insecure = absl::GetFlag(FLAGS_insecure);
  options.context.health_listen = absl::GetFlag(FLAGS_health_listen);
  options.context.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  options.record_history = absl::GetFlag(FLAGS_record_history);
  options.trace = absl::GetFlag(FLAGS_trace);
  const int32_t rank = absl::GetFlag(FLAGS_rank);
  if (rank < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank: expected a rank from 0 on, or -1 for the next free one, got ", rank));
  }
  if (rank >= 0) options.rank = rank;
  options.end = end;
  options.on_ucx_blocked = &EndWorker;
  ASSIGN_OR_RETURN(const std::unique_ptr<WorkerProcess> process,
                   WorkerProcess::Create(std::move(options)));
  *has_begun = true;
  const JobPreparer prepare = JobPreparerOf(EngineFactoryOf(device, process->tracer()));
  return process->Run([&](const v1::JobSpec& job, Clock* clock) {
    if (job.model().type() == v1::ModelSpec::PROGRAM) RefuseJobForPrograms();
    if (LearnsFromStream(job.model())) return PrepareStreamJob(job, device, clock);
    if (job.model().type() == v1::ModelSpec::UPDATES) {
      return absl::StatusOr<JobSetup>(PrepareUpdatesJob(job, clock));
    }
    return prepare(job, clock);
  });
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::EndRequest end;
  capstan::InitProgram(argv[0], capstan::kUsage);
  capstan::EndOnTermination(&end);
  std::vector<std::string> args(argv, argv + argc);
  absl::Status parsed = capstan::BeginRole(
      "worker", capstan::kUsage + capstan::ProgramFlagsHelp(capstan::kFlags), &args);
  if (parsed.ok()) parsed = capstan::ParseProgramFlags(args);
  parsed.Update(capstan::SetLogFormat(absl::GetFlag(FLAGS_log_format)));
  if (!parsed.ok()) {
    capstan::EndProgram(capstan::kName, parsed, /*is_usage_error=*/true);
  }
  const auto device = capstan::ParseDeviceName(absl::GetFlag(FLAGS_device));
  if (!device.ok()) {
    capstan::EndProgram(capstan::kName, device.status(), /*is_usage_error=*/true);
  }
  capstan::SendGrpcLogsToVlog();
  capstan::UseOneBlasThread();
  bool has_begun = false;
  absl::Status status = capstan::TakeBlasMemory();
  if (status.ok()) status = capstan::Work(*device, &end, &has_begun);
  if (!status.ok() && end.is_asked()) capstan::EndTerminatedProgram(capstan::kName, status);
  capstan::EndProgram(capstan::kName, status,
                      /*is_usage_error=*/!has_begun && absl::IsInvalidArgument(status));
}
