#include "worker/program/program_engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/local_steps_check.h"
#include "common/job/optimizer_check.h"

namespace capstan {
namespace {

// A worker that is asked to end tells the end of its step for so long. If nobody hears it, the
// process in its place does that step again.
constexpr absl::Duration kEndPatience = absl::Seconds(3);

int LayerCount(const std::vector<v1::TableSpec>& tables) {
  int count = 0;
  for (const v1::TableSpec& table : tables) {
    count = std::max(count, static_cast<int>(table.layer()) + 1);
  }
  return count;
}

}  // namespace

ProgramEngine::ProgramEngine(Options options)
    : options_(std::move(options)),
      layer_count_(LayerCount(options_.tables)),
      is_bsp_(options_.job.consistency().mode() == v1::ConsistencySpec::BSP),
      steps_(options_.clock, layer_count_ + options_.tables.size(), options_.steps),
      rows_(options_.clock, &options_.tables, &steps_, layer_count_,
            [this](absl::Time deadline) { return AwaitStepBefore(deadline); }),
      optimizer_state_(options_.clock, &options_.tables, options_.job, &steps_,
                       layer_count_ + options_.tables.size()),
      worker_state_(options_.clock, &steps_, &options_.tables,
                    !options_.job.checkpoint().dir().empty()),
      collectives_(options_.clock, &steps_, options_.job, options_.is_replaceable),
      loaded_(std::move(options_.loaded)) {
  options_.elsewhere.resize(options_.tables.size());
  if (options_.is_part) steps_.BePart();
  steps_.OnLongWait(
      [this](ParameterStore& store) { collectives_.NoteWaiting(steps_.current(), store); });
}

absl::Status ProgramEngine::CheckLayer(int layer) const {
  if (layer >= 0 && layer < layer_count_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layer: expected 0 to ", layer_count_ - 1, ", got ", layer));
}

absl::Span<const absl::Span<const float>> ProgramEngine::values() const {
  MutexLock lock(&mu_);
  return values_;
}

absl::Span<const absl::Span<float>> ProgramEngine::gradients() const {
  MutexLock lock(&mu_);
  return gradients_;
}

absl::Status ProgramEngine::Wait(int layer, absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  if (layer >= 0) return steps_.Explain(WaitUntil(layer, deadline), deadline);
  for (int one = 0; one < layer_count_; ++one) {
    RETURN_IF_ERROR(steps_.Explain(WaitUntil(one, deadline), deadline));
  }
  return absl::OkStatus();
}

absl::Status ProgramEngine::WaitUntil(int layer, absl::Time deadline) {
  RETURN_IF_ERROR(CheckLayer(layer));
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  if (store == nullptr) return absl::OkStatus();  // All steps are done, and answered.
  RETURN_IF_ERROR(
      steps_.WaitIn(*store, deadline, "values are on their way",
                    [&](absl::Duration limit) { return store->WaitForLayerFor(layer, limit); }));
  steps_.NoteBegun();
  return absl::OkStatus();
}

absl::Status ProgramEngine::Push(int layer, absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  return steps_.Explain(PushUntil(layer, /*has_gradient=*/true, deadline), deadline);
}

absl::Status ProgramEngine::PushNothing(int layer, absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  return steps_.Explain(PushUntil(layer, /*has_gradient=*/false, deadline), deadline);
}

int64_t ProgramEngine::UpdatesOf(TableId table) {
  if (table.value() >= options_.tables.size() || options_.tables[table.value()].has_sparse() ||
      options_.elsewhere[table.value()]) {
    return -1;
  }
  const absl::StatusOr<ProgramSteps::StoreLease> store = steps_.LeaseStore();
  if (!store.ok() || *store == nullptr) return -1;
  return static_cast<int64_t>((*store)->UpdatesOf(table));
}

absl::Status ProgramEngine::AwaitStepBefore(absl::Time deadline) {
  if (!options_.is_replaceable || !is_bsp_ || steps_.HasPush()) return absl::OkStatus();
  for (int layer = 0; layer < layer_count_; ++layer) RETURN_IF_ERROR(WaitUntil(layer, deadline));
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  if (store == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(rows_.AwaitAnswers(deadline));
  const auto are_answered = [&] {
    return steps_.WaitIn(*store, deadline, "the servers have not heard of the step's begin yet",
                         [&](absl::Duration limit) { return store->WaitForCollectives(limit); });
  };
  // An operation of another thread may still be one of the step before.
  RETURN_IF_ERROR(are_answered());
  collectives_.NoteStepBefore(steps_.current(), *store);
  return are_answered();
}

absl::Status ProgramEngine::PushUntil(int layer, bool has_gradient, absl::Time deadline) {
  RETURN_IF_ERROR(WaitUntil(layer, deadline));
  RETURN_IF_ERROR(AwaitStepBefore(deadline));
  std::optional<ProgramSteps::TakenPush> push;
  while (!push.has_value()) {
    RETURN_IF_ERROR(steps_.AwaitOpenStep(deadline).status());
    ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
    if (store != nullptr) {
      RETURN_IF_ERROR(optimizer_state_.CheckIsKept(layer, *store));
      RETURN_IF_ERROR(worker_state_.AwaitKnown(*store, deadline));
    }
    ASSIGN_OR_RETURN(push, steps_.TakePush(layer, absl::StrCat("layer ", layer)));
  }
  worker_state_.NotePush(layer, *push->store);
  Send(layer, has_gradient, *push);
  return absl::OkStatus();
}

void ProgramEngine::Send(int layer, bool has_gradient, const ProgramSteps::TakenPush& push) {
  // After an exception nobody can complete the push.
  absl::Cleanup fail = [this] { steps_.FailHalfSent(); };
  if (has_gradient) {
    push.store->PushPull(layer, push.step);
  } else {
    push.store->PushNothing(layer, push.step);
  }
  std::move(fail).Cancel();
}

absl::Status ProgramEngine::CheckTable(std::optional<TableId> table) const {
  if (!table.has_value() || table->value() < options_.tables.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("table: expected one below ", options_.tables.size(), ", got ", table->value()));
}

bool ProgramEngine::HasMomentum(TableId table) const {
  const v1::TableSpec& spec = options_.tables[table.value()];
  const v1::OptimizerSpec& optimizer =
      spec.has_optimizer() ? spec.optimizer() : options_.job.optimizer();
  return !spec.has_sparse() && !spec.replies_mean() && capstan::HasMomentum(optimizer);
}

absl::Status ProgramEngine::SetLearningRate(std::optional<TableId> table, double learning_rate) {
  RETURN_IF_ERROR(CheckTable(table));
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  if (store == nullptr) return absl::OkStatus();  // No push will come.
  for (uint32_t id = 0; id < options_.tables.size(); ++id) {
    if (!table.has_value() || id == table->value()) {
      store->SetLearningRate(TableId(id), learning_rate);
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramEngine::SetMomentum(std::optional<TableId> table, double momentum) {
  RETURN_IF_ERROR(CheckTable(table));
  if (options_.local_steps.has_value() && !is_bsp_ && momentum > kMostMomentumOfRounds) {
    return absl::InvalidArgumentError(
        absl::StrCat("momentum: expected at most ", kMostMomentumOfRounds,
                     " with local steps, unless the job is in bsp, got ", momentum));
  }
  std::vector<TableId> chosen;
  for (uint32_t id = 0; id < options_.tables.size(); ++id) {
    const bool is_meant = !table.has_value() || id == table->value();
    if (is_meant && HasMomentum(TableId(id))) chosen.push_back(TableId(id));
  }
  if (chosen.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        table.has_value() ? absl::StrCat("table ", options_.tables[table->value()].name(), ": ")
                          : "",
        "expected a dense table whose optimizer began with a momentum or a beta1, to change it; "
        "give the table such an optimizer"));
  }
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  if (store == nullptr) return absl::OkStatus();  // No push will come.
  for (const TableId id : chosen) store->SetMomentum(id, momentum);
  return absl::OkStatus();
}

absl::Status ProgramEngine::NoteRound(int64_t local_steps, double drift) {
  if (!options_.local_steps.has_value()) {
    return absl::FailedPreconditionError(
        "the job has no local steps: call capstan_set_local_steps before capstan_start");
  }
  if (local_steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("local_steps: expected 0 or more, got ", local_steps));
  }
  if (drift < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("drift: expected 0 or more, or NaN, got ", drift));
  }
  RETURN_IF_ERROR(steps_.LeaseStore().status());
  MutexLock lock(&mu_);
  noted_round_ = Round{local_steps, std::isfinite(drift) ? drift : 0};
  return absl::OkStatus();
}

std::optional<Engine::Round> ProgramEngine::round() const {
  MutexLock lock(&mu_);
  return round_;
}

absl::Status ProgramEngine::EndStep(double loss, size_t samples, absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  RETURN_IF_ERROR(steps_.BeginEndOfStep(deadline));
  const absl::Cleanup end = [this] { steps_.FinishEndOfStep(); };
  return steps_.Explain(EndStepUntil(loss, samples, deadline), deadline);
}

absl::Status ProgramEngine::EndStepUntil(double loss, size_t samples, absl::Time deadline) {
  RETURN_IF_ERROR(steps_.AwaitOpenStep(deadline).status());
  for (int layer = layer_count_ - 1; layer >= 0; --layer) {
    if (steps_.IsPushed(layer)) continue;
    RETURN_IF_ERROR(PushUntil(layer, /*has_gradient=*/false, deadline));
  }
  RETURN_IF_ERROR(rows_.PushNothing(deadline));
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  if (store != nullptr) worker_state_.NoteStepEnd(*store);
  {
    MutexLock lock(&mu_);
    round_ = std::exchange(noted_round_, std::nullopt);
  }
  return steps_.CloseStep(loss, samples);
}

absl::Status ProgramEngine::End() {
  const bool is_again = steps_.has_ended_steps();
  // Taken before: afterwards the training may end.
  const absl::StatusOr<ProgramSteps::StoreLease> store = steps_.LeaseStore();
  if (!is_again && store.ok() && *store != nullptr) {
    RETURN_IF_ERROR(optimizer_state_.CheckLastIsKept(**store));
  }
  // Whether all have agreed to end earlier is for the process that is the worker.
  if (options_.is_part) steps_.AgreeToEnd();
  RETURN_IF_ERROR(steps_.End());
  if (is_again || !store.ok() || *store == nullptr) return absl::OkStatus();
  worker_state_.NoteEnd(**store);
  collectives_.NoteEnd(**store);
  return absl::OkStatus();
}

absl::Status ProgramEngine::AwaitEnd(ParameterStore& store) {
  RETURN_IF_ERROR(steps_.AwaitEnd(/*owes_state=*/false));
  const bool owes_state =
      worker_state_.has_pieces() || !optimizer_state_.CheckLastIsKept(store).ok();
  return owes_state ? steps_.AwaitEnd(owes_state) : absl::OkStatus();
}

absl::Status ProgramEngine::EndBefore(Step next, ParameterStore& store) {
  if (!options_.is_replaceable || !is_bsp_) return absl::OkStatus();
  collectives_.NoteStepBefore(next, store);
  return store.WaitForCollectives(kEndPatience).status();
}

void ProgramEngine::BeginTraining(Step first_step, bool sets_initial_values,
                                  ParameterStore& store) {
  {
    MutexLock lock(&mu_);
    memory_ = store.memory();
    values_.assign(store.values().begin(), store.values().end());
    gradients_.assign(store.gradients().begin(), store.gradients().end());
  }
  // Before the initial values: no push is admitted until these are there. And before the program
  // may load more.
  absl::Status status =
      optimizer_state_.Begin(first_step, sets_initial_values, std::exchange(loaded_, {}), store);
  worker_state_.Begin(store);
  steps_.BeginTraining(first_step, store);
  if (!status.ok()) return steps_.Fail(std::move(status));
  for (uint32_t id = 0; sets_initial_values && id < options_.tables.size(); ++id) {
    if (!options_.tables[id].initial_from_worker() || options_.elsewhere[id]) continue;
    if (options_.initial[id].empty()) {
      return steps_.Fail(absl::InvalidArgumentError(
          absl::StrCat("expected initial values of table ", options_.tables[id].name(),
                       ", got none; worker 0 gives them")));
    }
    const absl::Span<float> values = store.InitialValuesOf(TableId(id));
    std::copy(options_.initial[id].begin(), options_.initial[id].end(), values.begin());
    store.PushInitial(TableId(id));
  }
}

absl::Status ProgramEngine::LoadBatch(const Dataset& /*dataset*/,
                                      absl::Span<const uint32_t> /*samples*/) {
  return absl::OkStatus();  // The program has its own.
}

absl::Status ProgramEngine::Evaluate(Step steps, ParameterStore& store,
                                     v1::ReportResultRequest& result) {
  RETURN_IF_ERROR(AwaitEnd(store));
  store.PullAllExactly(steps);
  RETURN_IF_ERROR(store.WaitForAll());
  if (store.rows() != nullptr) store.rows()->PullExactly();
  ASSIGN_OR_RETURN(v1::ReportResultRequest report, steps_.AwaitReport(steps, store));
  report.set_worker(result.worker());
  report.set_incarnation(result.incarnation());
  result = std::move(report);
  return absl::OkStatus();
}

}  // namespace capstan
