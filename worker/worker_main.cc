// capstan_worker: trains a share of a job's data against its parameter servers.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/end_request.h"
#include "common/base/flag_help.h"
#include "common/base/log_format.h"
#include "common/base/program.h"
#include "common/base/random.h"
#include "common/base/readiness.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/history/history_recorder.h"
#include "common/membership/grpc_coordinator_client.h"
#include "common/membership/member_agent.h"
#include "common/membership/start_trace.h"
#include "common/metrics/metrics_sources.h"
#include "common/routing/routing_table.h"
#include "common/trace/tracer.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/grpc_setup.h"
#include "common/transport/grpc/process_listeners.h"
#include "kernels/gemm.h"
#include "worker/client/connect_to_servers.h"
#include "worker/engine/device_name.h"
#include "worker/runtime/job_setup.h"
#include "worker/runtime/make_engine.h"
#include "worker/runtime/worker.h"

ABSL_FLAG(std::string, coordinator, "", "Address of the job's coordinator. Required.");
ABSL_FLAG(double, rpc_deadline_seconds, 30,
          "Time of retries while the coordinator cannot be reached.");
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
          "Device for computing: cpu, cuda (the first GPU) or cuda:N (GPU number N, from 0).");
ABSL_FLAG(std::string, health_listen, "",
          "Address for probes: HTTP (/healthz, /readyz) and gRPC's health service, without "
          "encryption. Ready: it is registered and trains. Port 0 takes a free one.");
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
    {kCoordinator, "coordinator", "HOST:PORT"},
    {kCoordinator, "rpc_deadline_seconds", "SECONDS"},
    {kCoordinator, "connect_seconds", "SECONDS"},
    {kCoordinator, "device", "DEVICE"},
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

// The files of this worker: history and trace.
struct Records {
  std::unique_ptr<HistoryRecorder> recorder;  // null: nothing is recorded
  std::unique_ptr<Tracer> tracer;             // null: nothing is traced
};

absl::StatusOr<Records> StartRecords(Incarnation incarnation, CoordinatorEndpoint& coordinator,
                                     Clock& clock) {
  Records records;
  if (const std::string folder = absl::GetFlag(FLAGS_record_history); !folder.empty()) {
    ASSIGN_OR_RETURN(records.recorder, HistoryRecorder::Create(folder, incarnation, &clock));
  }
  if (const std::string path = absl::GetFlag(FLAGS_trace); !path.empty()) {
    ASSIGN_OR_RETURN(records.tracer, StartTrace(path, coordinator, &clock));
  }
  return records;
}

// Sets `has_begun` once the flags are known to be right.
absl::Status Work(const DeviceName& device, EndRequest* end, bool* has_begun) {
  RealClock clock;
  ASSIGN_OR_RETURN(
      const SecurityPointer security,
      GrpcSecurity::Open({absl::GetFlag(FLAGS_keys), absl::GetFlag(FLAGS_insecure), &clock}));
  ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorEndpoint> coordinator,
                   ConnectToCoordinator(absl::GetFlag(FLAGS_coordinator),
                                        absl::Seconds(absl::GetFlag(FLAGS_rpc_deadline_seconds)),
                                        &clock, Random(SystemRandom()), security,
                                        absl::Seconds(absl::GetFlag(FLAGS_connect_seconds))));
  Worker::Options options;
  options.clock = &clock;
  options.coordinator = coordinator.get();
  options.incarnation = Incarnation(SystemRandom());
  options.host = HostAndNetwork();
  Readiness readiness(absl::UnavailableError("waits for the coordinator"));
  MetricsSources metrics;
  const absl::StatusOr<ProcessListeners> listeners =
      StartProcessListeners(absl::GetFlag(FLAGS_health_listen), absl::GetFlag(FLAGS_metrics_listen),
                            readiness, metrics, &clock);
  if (!listeners.ok()) {
    ReportEarlyFailure(*coordinator, v1::HeartbeatRequest::WORKER, options.incarnation,
                       listeners.status(), clock);
    return listeners.status();
  }
  options.metrics = &metrics;
  options.end = end;
  options.on_readiness = [&readiness](absl::Status status) { readiness.Set(std::move(status)); };
  const absl::StatusOr<Records> records = StartRecords(options.incarnation, *coordinator, clock);
  if (!records.ok()) {
    ReportEarlyFailure(*coordinator, v1::HeartbeatRequest::WORKER, options.incarnation,
                       records.status(), clock);
    return records.status();
  }
  HistoryRecorder* const recorder = records->recorder.get();
  Tracer* const tracer = records->tracer.get();
  options.tracer = tracer;
  const Incarnation incarnation = options.incarnation;
  const auto used = std::make_shared<TransportsUsed>();
  options.transport = [used] { return used->Text(); };
  ServerConnector connect;
  options.connect = [&](const v1::JobSpec& job, ServerId, const ServerAddress& address) {
    if (!connect) {
      connect = ConnectToServers(
          {job.transport(), &clock, &EndWorker, {security, job.name(), incarnation.value()}, used});
    }
    return connect(address.grpc);
  };
  options.prepare = JobPreparerOf(EngineFactoryOf(device, tracer));
  if (recorder != nullptr) {
    options.wrap = [recorder](const v1::JobSpec& job,
                              std::unique_ptr<ParameterEndpoint> exchanges) {
      return recorder->Record(job, std::move(exchanges));
    };
    options.on_view = [recorder](const v1::JobView& view) { recorder->NoteView(view); };
  }
  *has_begun = true;
  const absl::Status status = Worker(std::move(options)).Run();
  absl::Status kept = recorder == nullptr ? absl::OkStatus() : recorder->Finish();
  if (tracer != nullptr) kept.Update(tracer->Finish());
  return status.ok() ? kept : status;
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
  const absl::Status status = capstan::Work(*device, &end, &has_begun);
  if (!status.ok() && end.is_asked()) capstan::EndTerminatedProgram(capstan::kName, status);
  capstan::EndProgram(capstan::kName, status,
                      /*is_usage_error=*/!has_begun && absl::IsInvalidArgument(status));
}
