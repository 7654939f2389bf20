#include "worker/client_api/client_job.h"

#include <signal.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/member_agent.h"

namespace capstan {
namespace {

// How long a worker that ends may take for its last calls.
constexpr absl::Duration kEndPatience = absl::Seconds(10);

// Signals are for the program's own threads.
std::thread WithoutSignals(std::function<void()> run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

ClientJob::ClientJob(Options options) : options_(std::move(options)) {
  options_.process.end = &end_;
  options_.process.on_registered = [this](WorkerId id) { rank_ = id.value(); };
  end_.Await();
}

absl::StatusOr<std::unique_ptr<ClientJob>> ClientJob::Connect(Options options) {
  auto job = std::unique_ptr<ClientJob>(new ClientJob(std::move(options)));
  ASSIGN_OR_RETURN(job->process_, WorkerProcess::Create(job->options_.process));
  RETURN_IF_ERROR(job->ReadJob());
  return job;
}

absl::Status ClientJob::ReadJob() {
  ASSIGN_OR_RETURN(
      const v1::GetJobReply reply,
      AwaitReply(process_->coordinator(), &CoordinatorEndpoint::GetJob, {}, process_->clock()));
  job_ = reply.job();
  if (job_.model().type() != v1::ModelSpec::PROGRAM) {
    return absl::FailedPreconditionError(absl::StrCat(
        "expected a job with --model=program, got ", v1::ModelSpec::Type_Name(job_.model().type()),
        ": its workers are capstan_worker processes"));
  }
  if (options_.steps == 0) options_.steps = static_cast<int64_t>(job_.training().steps());
  if (options_.steps == 0 && !job_.checkpoint().dir().empty()) {
    return absl::FailedPreconditionError(
        "the job has --checkpoint_dir, so the number of steps must be known from the start: give "
        "--steps to the job, or `steps` to capstan_connect");
  }
  return absl::OkStatus();
}

void ClientJob::Close(std::unique_ptr<ClientJob> job) {
  if (job->engine_ == nullptr) return;
  if (!job->engine_->has_ended_steps()) job->Fail("the program has closed the job before its end");
  v1::ReportResultRequest nothing;
  nothing.set_has_no_accuracy(true);
  nothing.set_has_no_loss(true);
  // Does nothing unless the worker is the one that evaluates.
  job->engine_->Report(nothing, absl::ZeroDuration()).IgnoreError();
  if (job->engine_->AwaitOutcome(kEndPatience)) {
    job->thread_.join();
  } else {
    job->thread_.detach();
    job.release();
  }
}

absl::Status ClientJob::AddTable(v1::TableSpec table, std::vector<float> initial) {
  if (engine_ != nullptr) {
    return absl::FailedPreconditionError("tables are added before capstan_start");
  }
  const bool is_known =
      std::any_of(tables_.begin(), tables_.end(),
                  [&](const v1::TableSpec& known) { return known.name() == table.name(); });
  if (is_known) {
    return absl::InvalidArgumentError(
        absl::StrCat("name: expected one for each table, got \"", table.name(), "\" twice"));
  }
  tables_.push_back(std::move(table));
  initial_.push_back(std::move(initial));
  return absl::OkStatus();
}

absl::Status ClientJob::CheckTables() const {
  std::set<uint32_t> layers;
  for (const v1::TableSpec& table : tables_) layers.insert(table.layer());
  if (layers.empty()) return absl::FailedPreconditionError("expected at least one table");
  if (*layers.rbegin() + 1 == layers.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("layer: expected 0, 1, ... without gaps, got ",
                                                 layers.size(), " layers, the last of them ",
                                                 *layers.rbegin()));
}

absl::Status ClientJob::Start(absl::Duration limit) {
  if (engine_ == nullptr) {
    RETURN_IF_ERROR(CheckTables());
    ProgramEngine::Options options;
    options.clock = &process_->clock();
    options.tables = tables_;
    options.initial = std::move(initial_);
    options.steps = options_.steps;
    options.device = options_.device;
    engine_ = std::make_shared<ProgramEngine>(std::move(options));
    thread_ = WithoutSignals([this] { Run(); });
  }
  return engine_->AwaitStart(limit);
}

void ClientJob::Run() {
  engine_->SetOutcome(process_->Run([this](const v1::JobSpec&, Clock*) {
    JobSetup setup;
    setup.engine = engine_;
    setup.steps = options_.steps;
    setup.evaluate = [this](Step steps, ParameterStore& store, v1::ReportResultRequest& result) {
      return engine_->Evaluate(steps, store, result);
    };
    return setup;
  }));
}

void ClientJob::Leave() {
  end_.Ask();
  if (engine_ != nullptr) engine_->Leave();
}

void ClientJob::Fail(const std::string& reason) {
  if (engine_ == nullptr) {
    ReportEarlyFailure(process_->coordinator(), v1::HeartbeatRequest::WORKER,
                       process_->incarnation(), absl::InternalError(reason), process_->clock());
    return;
  }
  engine_->Fail(absl::InternalError(reason));
  // Before its first step the worker does not look at the engine.
  if (engine_->values().empty()) end_.Ask();
}

}  // namespace capstan
