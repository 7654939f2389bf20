#include "server/coordinator/coordinator_process.h"

#include <glog/logging.h>

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/process_limits.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/metrics/metrics_page.h"
#include "common/net/http_listener.h"
#include "common/transport/grpc/grpc_security.h"
#include "server/coordinator/job_files.h"

namespace capstan {
namespace {

CallGuard::Options GuardOptions(const v1::JobSpec& job, ProcessContext& context) {
  CallGuard::Options options;
  options.clock = &context.clock();
  options.registrations_per_second = job.limits().registrations_per_second();
  options.security = context.security();
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorProcess>> CoordinatorProcess::Start(Options options) {
  std::unique_ptr<LogRing> log;
  if (!options.http_listen.empty()) log = std::make_unique<LogRing>();
  options.context.listens = true;
  options.context.waits_for = "does not listen yet";
  ASSIGN_OR_RETURN(std::unique_ptr<ProcessContext> context,
                   ProcessContext::Create(options.context));
  auto process = std::unique_ptr<CoordinatorProcess>(
      new CoordinatorProcess(std::move(options), std::move(log), std::move(context)));
  RETURN_IF_ERROR(process->Open());
  return process;
}

CoordinatorProcess::CoordinatorProcess(Options options, std::unique_ptr<LogRing> log,
                                       std::unique_ptr<ProcessContext> context)
    : options_(std::move(options)),
      log_(std::move(log)),
      context_(std::move(context)),
      guard_(GuardOptions(options_.job, *context_)),
      outcome_(&context_->clock()),
      files_(&context_->clock(), /*num_threads=*/1),
      saving_(&context_->clock(), /*num_threads=*/1) {
  guard_.set_audience(kCoordinatorAudience);
}

CoordinatorProcess::~CoordinatorProcess() {
  counts_ = MetricsSources::Registration();
  server_.reset();
  service_.reset();
  page_.reset();
  // No file work may run once the coordinator ends.
  files_.Stop();
  saving_.Stop();
}

absl::Status CoordinatorProcess::Open() {
  RETURN_IF_ERROR(context_->Listen());
  info_ = AddMemberInfo(&context_->metrics(), "coordinator", /*id=*/0, options_.job.name());
  RETURN_IF_ERROR(MakeCoordinator());
  if (log_ != nullptr) RETURN_IF_ERROR(StartPage());
  RETURN_IF_ERROR(StartServer());
  context_->readiness().Set(absl::OkStatus());
  return absl::OkStatus();
}

absl::Status CoordinatorProcess::MakeCoordinator() {
  Coordinator::Options options;
  options.takes_over = options_.takes_over;
  options.job = options_.job;
  options.job_fingerprint = JobFingerprint(options_.job);
  options.folder_token = SystemRandom();
  if (!options_.state.empty()) {
    RETURN_IF_ERROR(OpenState(options_.state, options_.takes_over, options));
  }
  RETURN_IF_ERROR(OpenJobFiles(options_.takes_over, options));
  options.run_in_background = [this](absl::AnyInvocable<void()> work) {
    files_.Add(std::move(work));
  };
  options.save_in_background = [this](absl::AnyInvocable<void()> work) {
    saving_.Add(std::move(work));
  };
  options.on_lost = [this](absl::Status status) { NoteLost(std::move(status)); };
  coordinator_ = std::make_unique<Coordinator>(std::move(options), context_->clock());
  coordinator_->OnEnd([this](JobOutcome ended) {
    context_->readiness().End(absl::UnavailableError("the job has ended"));
    outcome_.Set(std::move(ended));
    options_.on_end();
  });
  return absl::OkStatus();
}

void CoordinatorProcess::NoteLost(absl::Status status) {
  context_->readiness().End(status);
  {
    MutexLock lock(&mu_);
    lost_ = std::move(status);
  }
  options_.on_end();
}

absl::Status CoordinatorProcess::lost() const {
  MutexLock lock(&mu_);
  return lost_;
}

absl::Status CoordinatorProcess::StartPage() {
  const SecurityPointer security = context_->security();
  LivePageServer::Options options;
  options.listen = options_.http_listen;
  options.coordinator = coordinator_.get();
  options.clock = &context_->clock();
  options.log = log_.get();
  options.tokens = [security] { return security->tokens(); };
  if (security->is_tls()) options.tls = [security] { return security->tls_keys(); };
  options.is_insecure = security->is_insecure();
  ASSIGN_OR_RETURN(page_, LivePageServer::Start(std::move(options)));
  return absl::OkStatus();
}

absl::Status CoordinatorProcess::StartServer() {
  const v1::JobSpec& job = options_.job;
  const uint64_t members = uint64_t{job.cluster().num_servers()} + job.cluster().num_workers();
  const uint64_t peers = uint64_t{job.cluster().num_servers()} +
                         uint64_t{job.cluster().num_workers()} * ExpectedProcesses(job);
  const uint64_t of_page = options_.http_listen.empty() ? 0 : HttpListener::kMaxConnections;
  RETURN_IF_ERROR(ExpectOpenFiles(members + of_page + context_->ListenerConnections()));
  service_ = std::make_unique<GrpcCoordinatorService>(
      *coordinator_, &guard_, [this](const v1::AttendRequest& member, bool is_heartbeat) {
        coordinator_->NoteBroken(member, is_heartbeat);
      });
  GrpcServer::Options options;
  options.guard = &guard_;
  options.max_connections = options_.max_connections > 0 ? options_.max_connections
                                                         : static_cast<uint32_t>(64 + 4 * peers);
  options.max_message_bytes = static_cast<int>(job.limits().message_bytes());
  options.first_message_bytes = job.limits().message_bytes();
  options.limits = job.limits();
  ASSIGN_OR_RETURN(server_, GrpcServer::Start(options_.listen, {service_.get()}, options));
  counts_ = context_->metrics().Add([this](MetricsPage& page) {
    coordinator_->AddMetrics(page);
    AddConnectionMetrics(guard_, *server_, page);
  });
  return absl::OkStatus();
}

void CoordinatorProcess::Interrupt(const std::string& reason) {
  context_->readiness().End(absl::UnavailableError(reason));
  coordinator_->Fail(reason);
}

void CoordinatorProcess::Stop() {
  LogRefused(guard_, *server_);
  counts_ = MetricsSources::Registration();
  server_->Shutdown(context_->clock().Now() + absl::Seconds(1));
  files_.Stop();
  saving_.Stop();
}

void CoordinatorProcess::FinishState() {
  if (!has_ended() || !lost().ok()) return;
  const absl::Status finished = coordinator_->FinishState();
  if (!finished.ok()) LOG(WARNING) << "--state: " << finished.message();
}

}  // namespace capstan
