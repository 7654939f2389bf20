#include "worker/program/client_job.h"

#include <signal.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/local_steps_check.h"
#include "common/job/optimizer_check.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/member_agent.h"
#include "worker/program/check_table.h"

namespace capstan {
namespace {

// How long a worker that ends may take for its last calls.
constexpr absl::Duration kEndPatience = absl::Seconds(10);

// Signals are for the program's own threads.
std::thread WithoutSignals(std::function<void()> run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // Also if there can be no other thread.
  const absl::Cleanup restore = [&before] { pthread_sigmask(SIG_SETMASK, &before, nullptr); };
  return std::thread(std::move(run));
}

// Room for one more. Each time twice as much, as a model may have many tables.
template <typename T>
void MakeRoom(std::vector<T>& all) {
  if (all.size() == all.capacity()) all.reserve(2 * all.size() + 1);
}

}  // namespace

ClientJob::ClientJob(Options options) : options_(std::move(options)) {
  options_.process.end = &end_;
  options_.process.is_ending = [this] { return is_closing_.load(); };
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
  ASSIGN_OR_RETURN(const v1::GetJobReply reply,
                   AwaitReply(process_->coordinator(), v1::GetJobRequest(), process_->clock()));
  job_ = reply.job();
  if (job_.model().type() != v1::ModelSpec::PROGRAM) {
    return absl::FailedPreconditionError(absl::StrCat(
        "expected a job with --model=program, got ", v1::ModelSpec::Type_Name(job_.model().type()),
        ": its workers are capstan_worker processes"));
  }
  const auto steps_of_job = static_cast<int64_t>(job_.training().steps());
  if (options_.steps > 0 && steps_of_job > 0 && options_.steps != steps_of_job) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job has ", steps_of_job, " steps (--steps), and this program wants ",
                     options_.steps, "; leave one of the two out"));
  }
  if (options_.steps == 0) options_.steps = steps_of_job;
  if (options_.steps == 0 && !job_.checkpoint().dir().empty()) {
    return absl::FailedPreconditionError(
        "the job has --checkpoint_dir, so the number of steps must be known from the start: give "
        "--steps to the job, or `steps` to capstan_connect (in Python capstan.connect(steps=))");
  }
  return absl::OkStatus();
}

void ClientJob::Close(std::unique_ptr<ClientJob> closed) {
  ProgramEngine* const engine = closed->engine();
  if (engine == nullptr) return;
  // The worker needs it until it is over, also after an exception.
  ClientJob* const job = closed.release();
  job->is_closing_ = true;
  if (!engine->steps().has_ended_steps() && !engine->steps().is_leaving()) {
    job->Fail("the program has closed the job before its end; expected capstan_finish first");
  }
  engine->steps().ReportNothing();
  const bool is_over = engine->steps().AwaitOutcome(kEndPatience);
  {
    MutexLock lock(&job->mu_);
    is_over ? job->thread_.join() : job->thread_.detach();
  }
  if (is_over) closed.reset(job);
}

absl::StatusOr<int32_t> ClientJob::AddTable(v1::TableSpec table, std::vector<float> initial,
                                            bool elsewhere) {
  MutexLock lock(&mu_);
  if (engine_ != nullptr) {
    return absl::FailedPreconditionError("tables are added before capstan_start");
  }
  if (table_names_.count(table.name()) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("name: expected one for each table, got \"", table.name(), "\" twice"));
  }
  RETURN_IF_ERROR(CheckTable(table, job_));
  // So that all grow, or none.
  MakeRoom(tables_);
  MakeRoom(initial_);
  MakeRoom(elsewhere_);
  table_names_.insert(table.name());
  tables_.push_back(std::move(table));
  initial_.push_back(std::move(initial));
  elsewhere_.push_back(elsewhere);
  return static_cast<int32_t>(tables_.size() - 1);
}

absl::Status ClientJob::SetLocalSteps(const v1::LocalSteps& local_steps) {
  MutexLock lock(&mu_);
  if (engine_ != nullptr) {
    return absl::FailedPreconditionError("local steps are set before capstan_start");
  }
  RETURN_IF_ERROR(CheckLocalSteps(local_steps, options_.is_replaceable));
  local_steps_ = local_steps;
  return absl::OkStatus();
}

int32_t ClientJob::OptimizerArraysOf(int64_t table) const {
  MutexLock lock(&mu_);
  if (table < 0 || table >= static_cast<int64_t>(tables_.size())) return -1;
  const v1::TableSpec& spec = tables_[table];
  if (spec.has_sparse() || spec.replies_mean()) return 0;
  return static_cast<int32_t>(
      OptimizerArrays(spec.has_optimizer() ? spec.optimizer() : job_.optimizer()));
}

absl::Status ClientJob::LoadOptimizerState(ProgramOptimizerState::Loaded loaded,
                                           absl::Duration limit) {
  {
    MutexLock lock(&mu_);
    if (engine_ == nullptr) {
      if (loaded.table.value() >= tables_.size()) {
        return absl::InvalidArgumentError(absl::StrCat("table: expected one below ", tables_.size(),
                                                       ", got ", loaded.table.value()));
      }
      const v1::TableSpec& table = tables_[loaded.table.value()];
      RETURN_IF_ERROR(
          ProgramOptimizerState::Check(table, job_, loaded.array, loaded.values->size()));
      RETURN_IF_ERROR(ProgramOptimizerState::CheckComesFirst(table, job_));
      // The latest one counts.
      loaded_.erase(std::remove_if(loaded_.begin(), loaded_.end(),
                                   [&loaded](const ProgramOptimizerState::Loaded& earlier) {
                                     return earlier.table == loaded.table &&
                                            earlier.array == loaded.array;
                                   }),
                    loaded_.end());
      loaded_.push_back(std::move(loaded));
      return absl::OkStatus();
    }
  }
  return engine()->optimizer_state().Load(std::move(loaded), limit);
}

absl::Status ClientJob::CheckTables() const {
  std::set<uint32_t> layers;
  for (const v1::TableSpec& table : tables_) layers.insert(table.layer());
  if (layers.empty()) return absl::FailedPreconditionError("expected at least one table");
  if (const bool is_part = options_.process.part_of.has_value(); elsewhere_[0] != is_part) {
    return absl::InvalidArgumentError(
        "elsewhere: expected the first table in the process that is the worker");
  }
  if (*layers.rbegin() + 1 == layers.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("layer: expected 0, 1, ... without gaps, got ",
                                                 layers.size(), " layers, the last of them ",
                                                 *layers.rbegin()));
}

absl::Status ClientJob::BeginLocked() {
  RETURN_IF_ERROR(CheckTables());
  if (local_steps_.has_value()) {
    RETURN_IF_ERROR(CheckTablesOfRounds(job_, {tables_.begin(), tables_.end()}));
  }
  ProgramEngine::Options options;
  options.clock = &process_->clock();
  options.tables = tables_;
  options.initial = std::move(initial_);
  options.elsewhere = elsewhere_;
  options.is_part = options_.process.part_of.has_value();
  options.job = job_;
  options.loaded = std::move(loaded_);
  options.steps = options_.steps;
  options.is_replaceable = options_.is_replaceable;
  options.local_steps = local_steps_;
  options.device = options_.device;
  auto engine = std::make_shared<ProgramEngine>(std::move(options));
  thread_ = WithoutSignals([this, engine] { Run(engine); });
  engine_ = std::move(engine);
  return absl::OkStatus();
}

absl::Status ClientJob::Start(absl::Duration limit) {
  {
    MutexLock lock(&mu_);
    if (engine_ == nullptr) RETURN_IF_ERROR(BeginLocked());
  }
  return engine()->steps().AwaitStart(limit);
}

void ClientJob::Run(const std::shared_ptr<ProgramEngine>& engine) {
  engine->steps().SetOutcome(process_->Run([this, &engine](const v1::JobSpec&, Clock*) {
    JobSetup setup;
    setup.engine = engine;
    setup.steps = options_.steps;
    setup.evaluate = [&engine](Step steps, ParameterStore& store, v1::ReportResultRequest& result) {
      return engine->Evaluate(steps, store, result);
    };
    return setup;
  }));
}

absl::Status ClientJob::Leave() {
  ProgramEngine* const engine = this->engine();
  if (engine == nullptr) return absl::FailedPreconditionError("the worker has not begun");
  if (engine->steps().is_over())
    return absl::FailedPreconditionError("the worker's part has ended");
  RETURN_IF_ERROR(engine->steps().CheckIsWorker());
  if (engine->HasElsewhere()) {
    return absl::FailedPreconditionError(
        "a worker of several processes does not leave: others of them may have exchanges under "
        "way");
  }
  end_.Ask();
  engine->steps().Leave();
  return absl::OkStatus();
}

void ClientJob::Fail(const std::string& reason) {
  const absl::Status status = absl::InternalError(reason);
  ProgramEngine* const engine = this->engine();
  if (engine != nullptr) engine->steps().Fail(status);
  // The training loop tells the coordinator.
  if (engine != nullptr && (engine->steps().has_started() || engine->steps().is_over())) return;
  is_closing_ = true;
  if (rank_ >= 0) {
    ReportFailure(process_->coordinator(), v1::HeartbeatRequest::WORKER,
                  static_cast<uint32_t>(rank_), process_->incarnation(), status, process_->clock());
    return;
  }
  ReportEarlyFailure(process_->coordinator(), v1::HeartbeatRequest::WORKER, process_->incarnation(),
                     status, process_->clock());
  end_.Ask();
}

}  // namespace capstan
