#include "worker/runtime/training_session.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log_format.h"
#include "common/base/status_macros.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/job/job_properties.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/member_agent.h"
#include "common/routing/job_view.h"
#include "common/routing/placement.h"
#include "common/routing/routing_table.h"
#include "common/scheduler/transfer_queue.h"
#include "worker/client/link_probe.h"
#include "worker/models/training/evaluate.h"  // HashParameters
#include "worker/runtime/worker_metrics.h"

namespace capstan {
namespace {

// `step` is the next one.
void UseAutoCodecs(const v1::AutoCodecs& choice, Step step, ParameterStore& store) {
  const std::vector<TableId> tables(choice.tables().begin(), choice.tables().end());
  store.UseAutoCodecs(std::max(Step(choice.first_step()), step), tables);
}

// Of a training whose end is not known: worth a measurement of its links.
constexpr int64_t kManySteps = 1000;

absl::Status LeftError() {
  return absl::CancelledError("has left the job, as it was asked to end");
}

}  // namespace

TrainingSession::TrainingSession(Options options)
    : options_(std::move(options)), watch_(options_.clock) {
  if (options_.metrics == nullptr) return;
  metrics_ = options_.metrics->Add([this](MetricsPage& page) { AddMetrics(page); });
}

absl::Status TrainingSession::Run() {
  MemberAgent::Options member;
  member.role = v1::HeartbeatRequest::WORKER;
  member.id = options_.worker.value();
  member.incarnation = options_.incarnation;
  member.part = options_.part;
  member.on_view = [this](const v1::JobView& view) { OnView(view); };
  member.on_lost = [this](const absl::Status& status) { OnLost(status); };
  member.progress = [this] { return CurrentProgress(); };
  member.report = [this](v1::HeartbeatRequest& request) { Report(request); };
  MemberAgent agent(std::move(member), *options_.coordinator, *options_.clock);
  agent.Start();
  const absl::Status status = TrainAndEvaluate([&agent] { agent.ReportNow(); });
  return absl::IsCancelled(status) && HasDoneItsSteps() ? absl::OkStatus() : status;
}

bool TrainingSession::HasDoneItsSteps() {
  const std::shared_ptr<Training> training = CurrentTraining();
  return training != nullptr && training->loop->has_finished();
}

bool TrainingSession::IsLeaving() {
  MutexLock lock(&mu_);
  if (presence_ == Presence::kIdle && IsAskedToEnd()) presence_ = Presence::kLeaving;
  return presence_ == Presence::kLeaving;
}

bool TrainingSession::BeginTraining() {
  MutexLock lock(&mu_);
  if (presence_ == Presence::kLeaving) return false;
  presence_ = Presence::kTraining;
  return true;
}

void TrainingSession::EndTraining() {
  const Presence done = options_.job->job().stay() ? Presence::kLeaving : Presence::kDone;
  const bool has_done_its_steps = HasDoneItsSteps();
  MutexLock lock(&mu_);
  presence_ = has_done_its_steps ? done : Presence::kIdle;
}

bool TrainingSession::IsGone(const v1::JobView& view) const {
  const auto worker = static_cast<int>(options_.worker.value());
  if (worker >= view.workers_size()) return false;
  const v1::WorkerInfo& self = view.workers(worker);
  return !self.is_live() || Incarnation(self.incarnation()) != options_.incarnation;
}

absl::StatusOr<v1::JobView> TrainingSession::WaitFor(
    absl::FunctionRef<bool(const v1::JobView&)> is_awaited) {
  ASSIGN_OR_RETURN(v1::JobView view, watch_.WaitFor([&](const v1::JobView& next) {
    return (IsLeaving() && IsGone(next)) || is_awaited(next);
  }));
  if (IsLeaving() && IsGone(view)) return LeftError();
  return view;
}

void TrainingSession::Report(v1::HeartbeatRequest& request) {
  request.set_is_leaving(IsLeaving());
  MutexLock lock(&mu_);
  if (links_.has_value()) *request.mutable_links() = *links_;
}

absl::Status TrainingSession::TrainAndEvaluate(absl::FunctionRef<void()> report_now) {
  RETURN_IF_ERROR(Train(report_now));
  report_now();
  bool has_evaluated = false;
  while (true) {
    ASSIGN_OR_RETURN(const v1::JobView now, WaitFor([&](const v1::JobView& next) {
                       const bool is_evaluator = next.phase() == v1::EVALUATING &&
                                                 WorkerId(next.evaluator()) == options_.worker;
                       return next.phase() == v1::DONE || (is_evaluator && !has_evaluated);
                     }));
    if (now.phase() == v1::DONE) return absl::OkStatus();
    if (absl::Status status = EvaluateAndReport(); !status.ok()) return BestReason(status);
    has_evaluated = true;
  }
}

absl::Status TrainingSession::Train(absl::FunctionRef<void()> report_now) {
  const auto worker = static_cast<int>(options_.worker.value());
  const auto may_start = [worker](const v1::JobView& view) {
    return view.phase() >= v1::TRAINING && !view.workers(worker).is_entering();
  };
  ASSIGN_OR_RETURN(v1::JobView view, WaitFor([&may_start](const v1::JobView& next) {
                     return next.measures_links() || may_start(next);
                   }));
  if (view.measures_links()) {
    if (options_.part == 0) MeasureLinksTo(view);
    report_now();
    ASSIGN_OR_RETURN(view, WaitFor(may_start));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<Training> training, MakeTraining(view, report_now));
  {
    MutexLock lock(&mu_);
    training_ = training;
  }
  // What came while the above was made.
  ASSIGN_OR_RETURN(const v1::JobView newest, WaitFor(may_start));
  training->client->UpdateRouting(RoutingTableFromView(newest));
  if (training->schedule != nullptr) training->schedule->OnView(newest);
  if (newest.steps_total() > 0) options_.setup->engine->LimitSteps(newest.steps_total());
  const int64_t first_step = FirstStep(view);
  if (view.workers(worker).entered_late()) options_.setup->engine->EnterLate();
  {
    const LogDetails details(first_step);
    const int64_t steps = EndStepOf(newest);
    LOG(INFO) << "training" << (steps > 0 ? absl::StrCat(" ", steps, " steps") : "")
              << (first_step > 0 ? absl::StrCat(", from step ", first_step, " on") : "");
  }
  // An entering worker may be asked to end before. It then waits until it is gone.
  if (!BeginTraining()) return absl::OkStatus();
  options_.on_training();
  if (absl::Status status = training->loop->Run(); !status.ok()) return BestReason(status);
  EndTraining();
  const LogDetails details(training->loop->steps_done());
  if (training->loop->has_finished()) LOG(INFO) << "all steps are done";
  return absl::OkStatus();
}

void TrainingSession::MeasureLinksTo(const v1::JobView& view) {
  std::vector<std::unique_ptr<ParameterEndpoint>> servers;
  for (const v1::ServerInfo& server : view.servers()) {
    servers.push_back(options_.connect(ServerId(server.server()), {server.address()}));
  }
  double model_bytes = 0;
  for (const v1::TableSpec& table : options_.setup->engine->tables()) {
    model_bytes += static_cast<double>(ElementCount(table)) * sizeof(float);
  }
  const int64_t first_step = FirstStep(view);
  const int64_t end = EndStepOf(view);
  const int64_t steps = end > 0 ? end - first_step : kManySteps;
  const v1::LinkMeasurement links =
      MeasureLinks(std::move(servers), model_bytes * static_cast<double>(steps), *options_.clock);
  MutexLock lock(&mu_);
  links_ = links;
}

int64_t TrainingSession::FirstStep(const v1::JobView& view) const {
  return view.workers(static_cast<int>(options_.worker.value())).first_step();
}

int64_t TrainingSession::EndStepOf(const v1::JobView& view) const {
  const v1::JobSpec& job = options_.job->job();
  const int64_t announced = options_.setup->steps;
  // The others may have ended earlier.
  const bool ends_early = !job.stay() && 0 < view.steps_total() && view.steps_total() < announced;
  return EndStep(job, ends_early ? view.steps_total() : announced, FirstStep(view));
}

absl::Status TrainingSession::BestReason(const absl::Status& status) {
  const absl::StatusOr<v1::JobView> view = watch_.WaitFor([](const v1::JobView&) { return true; });
  if (!view.ok()) return view.status();
  return view->phase() == v1::DONE ? absl::OkStatus() : status;
}

absl::StatusOr<std::unique_ptr<TrainingSession::Training>> TrainingSession::MakeTraining(
    const v1::JobView& view, absl::FunctionRef<void()> report_now) {
  const v1::SchedulerSpec& spec = SchedulerOf(options_.job->job(), view);
  auto training = std::make_unique<Training>();
  training->scheduler = std::make_unique<Scheduler>(
      spec.credit_bytes(), MakeTransferQueue(spec.policy()), options_.clock);
  MakeExchanges(view, *training);
  ASSIGN_OR_RETURN(const ParameterStore::Options store, StoreOptions(view, *training));
  ASSIGN_OR_RETURN(training->store, ParameterStore::Create(store));
  if (view.auto_codecs().first_step() > 0) {
    UseAutoCodecs(view.auto_codecs(), Step(FirstStep(view)), *training->store);
  }
  if (spec.tune()) {
    ScheduleFollower::Options schedule;
    schedule.apply = [scheduler = training->scheduler.get(),
                      store = training->store.get()](const v1::SchedulePeriod& period) {
      store->SetPartition(period.partition_bytes());
      scheduler->SetCredit(period.credit_bytes());
    };
    schedule.on_measured = [report_now] { report_now(); };
    training->schedule = std::make_unique<ScheduleFollower>(std::move(schedule));
    training->schedule->OnView(view);
  }
  training->loop = std::make_unique<TrainingLoop>(LoopOptions(view, *training));
  return training;
}

void TrainingSession::MakeExchanges(const v1::JobView& view, Training& training) {
  const v1::JobSpec& job = options_.job->job();
  ParameterClient::Options client;
  client.clock = options_.clock;
  client.rpc_deadline = absl::Seconds(job.membership().rpc_deadline_seconds());
  client.coordinator_last_away = options_.coordinator_last_away;
  client.seed = options_.incarnation.value();
  auto exchanges = std::make_unique<ParameterClient>(
      client,
      ShardMap(ElementCounts(view), SliceBytes(SchedulerOf(job, view)),
               job.cluster().shard_count()),
      RoutingTableFromView(view), std::move(options_.connect));
  training.client = exchanges.get();
  training.exchanges = std::move(exchanges);
  if (options_.wrap) training.exchanges = options_.wrap(std::move(training.exchanges));
}

absl::StatusOr<ParameterStore::Options> TrainingSession::StoreOptions(const v1::JobView& view,
                                                                      const Training& training) {
  const v1::JobSpec& job = options_.job->job();
  const v1::SchedulerSpec& spec = SchedulerOf(job, view);
  ParameterStore::Options store;
  store.clock = options_.clock;
  store.client = training.exchanges.get();
  store.sender = {options_.job->job_fingerprint(), options_.worker, options_.incarnation};
  store.scheduler = training.scheduler.get();
  store.policy = spec.policy();
  store.tables.assign(view.tables().begin(), view.tables().end());
  for (uint32_t i = 0; i < store.tables.size(); ++i) {
    v1::TableSpec& table = store.tables[i];
    ASSIGN_OR_RETURN(
        store.codecs.emplace_back(),
        CodecsOfTable(job.codec(), table.name(), ElementCount(table), SliceBytes(spec)));
    if (!options_.setup->engine->IsElsewhere(TableId(i))) continue;
    // Nothing of it is held here, and nothing exchanged.
    table.clear_shape();
    table.add_shape(0);
  }
  store.seed = job.seed();
  store.num_workers = job.cluster().num_workers();
  store.learning_rate = job.optimizer().learning_rate();
  store.slice_bytes = SliceBytes(spec);
  store.shard_count = job.cluster().shard_count();
  store.partition_bytes = spec.partition_bytes();
  store.mirror = options_.setup->engine->mirror();
  store.tracer = options_.tracer;
  store.own_state = options_.setup->engine->own_state();
  store.has_program_state = options_.setup->engine->has_program_state();
  if (!job.checkpoint().dir().empty()) store.last_pull_step = Step(EndStepOf(view));
  return store;
}

TrainingLoop::Options TrainingSession::LoopOptions(const v1::JobView& view,
                                                   const Training& training) {
  TrainingLoop::Options loop;
  loop.clock = options_.clock;
  loop.engine = options_.setup->engine.get();
  loop.store = training.store.get();
  auto& sampler = options_.setup->sampler;
  loop.sampler = sampler.has_value() ? &*sampler : nullptr;
  loop.train = &options_.setup->data.train;
  loop.worker = options_.worker;
  loop.first_step = Step(FirstStep(view));
  loop.steps = EndStepOf(view);
  loop.is_restored = view.restored_step() > 0;
  loop.must_stop = [this] { return IsAskedToEnd(); };
  loop.tracer = options_.tracer;
  loop.schedule = training.schedule.get();
  if (view.auto_codecs().first_step() > 0) return loop;
  loop.begin_step = [this, store = training.store.get(), is_used = false](Step step) mutable {
    if (is_used) return;
    const v1::AutoCodecs choice = AutoCodecsOfJob();
    if (choice.first_step() == 0) return;
    is_used = true;
    UseAutoCodecs(choice, step, *store);
  };
  return loop;
}

absl::Status TrainingSession::EvaluateAndReport() {
  const std::shared_ptr<Training> training = CurrentTraining();
  LOG(INFO) << "evaluating";
  v1::ReportResultRequest request;
  request.set_worker(options_.worker.value());
  request.set_incarnation(options_.incarnation.value());
  JobSetup& setup = *options_.setup;
  const Step steps(training->loop->steps_done());
  RETURN_IF_ERROR(setup.evaluate ? setup.evaluate(steps, *training->store, request)
                                 : EvaluateOnTestData(setup, steps, *training->store, request));
  if (options_.part > 0) return absl::OkStatus();
  if (HasAllTables()) request.set_parameters_xxh3(HashParameters(training->store->values()));
  return AwaitReply(*options_.coordinator, request, *options_.clock).status();
}

bool TrainingSession::HasAllTables() const {
  const Engine& engine = *options_.setup->engine;
  for (uint32_t id = 0; id < engine.tables().size(); ++id) {
    if (engine.IsElsewhere(TableId(id))) return false;
  }
  return true;
}

std::shared_ptr<TrainingSession::Training> TrainingSession::CurrentTraining() {
  MutexLock lock(&mu_);
  return training_;
}

v1::AutoCodecs TrainingSession::AutoCodecsOfJob() {
  MutexLock lock(&mu_);
  return auto_codecs_;
}

void TrainingSession::OnView(const v1::JobView& view) {
  if (options_.on_view) options_.on_view(view);
  watch_.OnView(view);
  {
    MutexLock lock(&mu_);
    auto_codecs_ = view.auto_codecs();
  }
  const std::shared_ptr<Training> training = CurrentTraining();
  if (training == nullptr) return;
  training->client->UpdateRouting(RoutingTableFromView(view));
  if (training->schedule != nullptr) training->schedule->OnView(view);
  if (view.steps_total() > 0) options_.setup->engine->LimitSteps(view.steps_total());
  if (view.phase() == v1::FAILED) {
    training->store->Fail(absl::AbortedError(absl::StrCat("the job has failed: ", view.reason())));
  }
}

void TrainingSession::OnLost(const absl::Status& lost) {
  // ABORTED is not reported to the coordinator: it cannot be reached.
  const absl::Status status = IsLeaving() ? LeftError() : absl::AbortedError(lost.message());
  watch_.OnLost(status);
  const std::shared_ptr<Training> training = CurrentTraining();
  if (training != nullptr) training->store->Fail(status);
}

void TrainingSession::AddMetrics(MetricsPage& page) {
  const std::shared_ptr<Training> training = CurrentTraining();
  if (training == nullptr) return;
  WorkerCounts counts;
  counts.progress = training->loop->progress();
  counts.step_parts = training->loop->step_parts();
  counts.traffic = training->store->traffic();
  counts.retries = training->client->retries();
  counts.waiting = training->scheduler->waiting();
  counts.copied = options_.setup->engine->copied_bytes();
  AddWorkerMetrics(counts, page);
}

v1::Progress TrainingSession::CurrentProgress() {
  const std::shared_ptr<Training> training = CurrentTraining();
  v1::Progress progress;
  if (training == nullptr) {
    progress.set_steps_total(options_.setup->steps);
  } else {
    progress = training->loop->progress();
    uint64_t queued = 0;
    for (const auto& [layer, waiting] : training->scheduler->waiting()) queued += waiting.count;
    progress.set_queued_transfers(queued);
  }
  progress.set_device(options_.setup->engine->device_name());
  progress.set_transport(options_.transport());
  return progress;
}

}  // namespace capstan
