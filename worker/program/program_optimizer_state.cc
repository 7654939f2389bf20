#include "worker/program/program_optimizer_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/exchange/exchange_request.h"
#include "common/job/optimizer_check.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 62;

uint64_t ElementsOf(const v1::TableSpec& table) {
  uint64_t elements = 1;
  for (const uint64_t size : table.shape()) elements *= size;
  return elements;
}

// INVALID_ARGUMENT unless the optimizer has this one of its arrays, of as many numbers.
absl::Status CheckArray(const v1::TableSpec& table, uint32_t arrays, uint32_t array, size_t count) {
  if (array < arrays && count == ElementsOf(table)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "table ", table.name(), ": its optimizer has ", arrays, " arrays of ", ElementsOf(table),
      " numbers, from array 0 on; got array ", array, " of ", count));
}

}  // namespace

absl::Status ProgramOptimizerState::Check(const v1::TableSpec& table, const v1::JobSpec& job,
                                          uint32_t array, size_t count) {
  if (table.has_sparse()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table ", table.name(), ": expected a dense one; a sparse one has the state in its rows"));
  }
  if (table.replies_mean()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table ", table.name(),
        ": expected one whose optimizer the servers run; the program has the state of this one"));
  }
  const uint32_t arrays =
      OptimizerArrays(table.has_optimizer() ? table.optimizer() : job.optimizer());
  return CheckArray(table, arrays, array, count);
}

absl::Status ProgramOptimizerState::CheckLoaded(absl::Span<const float> values, int64_t steps) {
  if (steps < 0 || steps > kMostSteps) {
    return absl::InvalidArgumentError(absl::StrCat("steps: expected 0 to 2^62, got ", steps));
  }
  if (absl::c_all_of(values, [](float value) { return std::isfinite(value); })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("values: expected finite numbers, got a NaN or an infinity");
}

absl::Status ProgramOptimizerState::CheckComesFirst(const v1::TableSpec& table,
                                                    const v1::JobSpec& job) {
  const bool awaits_initial = table.initial_from_worker() && job.initial().empty();
  if (job.consistency().mode() == v1::ConsistencySpec::BSP || awaits_initial) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "table ", table.name(),
      ": under SSP and async expected initial values from worker 0, in a job "
      "without --initial, for a state of the optimizer to begin with: another worker's update may "
      "come before"));
}

absl::Status ProgramOptimizerState::CheckTable(TableId table, uint32_t array, size_t count) const {
  if (table.value() < tables_.size()) return Check(tables_[table.value()], job_, array, count);
  return absl::InvalidArgumentError(
      absl::StrCat("table: expected one below ", tables_.size(), ", got ", table.value()));
}

absl::Status ProgramOptimizerState::CheckRead(TableId id, uint32_t array, size_t count) const {
  const bool replies_mean = id.value() < tables_.size() && tables_[id.value()].replies_mean();
  return replies_mean ? CheckArray(tables_[id.value()], kMaxTableStateArrays, array, count)
                      : CheckTable(id, array, count);
}

absl::Status ProgramOptimizerState::Begin(Step first_step, bool sends, std::vector<Loaded> loaded,
                                          ParameterStore& store) {
  {
    MutexLock lock(&mu_);
    first_step_ = first_step;
    sends_ = sends && first_step == Step(0);
    if (!sends_ || loaded.empty()) return absl::OkStatus();
  }
  for (const Loaded& one : loaded) {
    store.PushOptimizerState(one.table, one.array, one.steps, one.values);
  }
  return store.WaitForAll();
}

absl::Status ProgramOptimizerState::Read(TableId table, uint32_t array, absl::Span<float> values,
                                         uint64_t* steps, absl::Duration limit) {
  const absl::Time deadline = clock_.Now() + limit;
  return steps_.Explain(ReadUntil(table, array, values, steps, deadline), deadline);
}

absl::Status ProgramOptimizerState::ReadUntil(TableId table, uint32_t array,
                                              absl::Span<float> values, uint64_t* steps,
                                              absl::Time deadline) {
  RETURN_IF_ERROR(CheckRead(table, array, values.size()));
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  if (store == nullptr) return WhyDone(deadline);
  RETURN_IF_ERROR(WaitFor(LayerOf(table), *store, deadline));
  std::shared_ptr<OptimizerArray> read;
  {
    MutexLock lock(&mu_);
    const Step step = steps_.current();
    const bool goes_on = pending_.has_value() && pending_->read != nullptr &&
                         pending_->table == table && pending_->array == array &&
                         pending_->step == step;
    if (!goes_on) {
      read = std::make_shared<OptimizerArray>();
      read->values.resize(values.size());
      // After an exception nobody can complete the pull.
      absl::Cleanup fail = [this] { steps_.FailHalfSent(); };
      store->PullOptimizerState(table, array, read);
      std::move(fail).Cancel();
      pending_ = {table, array, step, read, Loaded()};
    } else {
      read = pending_->read;
    }
  }
  RETURN_IF_ERROR(WaitFor(LayerOf(table), *store, deadline));
  {
    MutexLock lock(&mu_);
    if (pending_.has_value() && pending_->read == read) pending_.reset();
  }
  if (read->is_missing) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", tables_[table.value()].name(), ": the servers have no array ", array,
                     " of the program's optimizer; after a restore they have those of the "
                     "checkpoint, until the first gradient is pushed"));
  }
  std::copy(read->values.begin(), read->values.end(), values.begin());
  *steps = read->steps;
  return absl::OkStatus();
}

absl::Status ProgramOptimizerState::WhyDone(absl::Time deadline) {
  // A worker that leaves the job gets that answer.
  const absl::Status status = steps_.AwaitOpenStep(deadline).status();
  if (!status.ok() && !absl::IsFailedPrecondition(status)) return status;
  return absl::FailedPreconditionError(
      "all steps are done: read the optimizer's state before the last step's end, or in the worker "
      "that evaluates between the job's finish and its report");
}

absl::Status ProgramOptimizerState::Load(Loaded loaded, absl::Duration limit) {
  const absl::Time deadline = clock_.Now() + limit;
  return steps_.Explain(LoadUntil(loaded, deadline), deadline);
}

absl::Status ProgramOptimizerState::LoadUntil(const Loaded& loaded, absl::Time deadline) {
  RETURN_IF_ERROR(CheckTable(loaded.table, loaded.array, loaded.values->size()));
  if (job_.consistency().mode() != v1::ConsistencySpec::BSP) {
    return absl::FailedPreconditionError(
        "under SSP and async load the optimizer's state before the start: another worker's update "
        "may have come before");
  }
  RETURN_IF_ERROR(CheckIsFirstStep());
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  if (store == nullptr) return absl::FailedPreconditionError("all steps are done");
  RETURN_IF_ERROR(WaitFor(LayerOf(loaded.table), *store, deadline));
  {
    MutexLock lock(&mu_);
    if (!sends_) return absl::OkStatus();
    const bool goes_on = pending_.has_value() && pending_->read == nullptr &&
                         pending_->table == loaded.table && pending_->array == loaded.array &&
                         pending_->loaded.steps == loaded.steps &&
                         *pending_->loaded.values == *loaded.values;
    if (!goes_on) {
      absl::Cleanup fail = [this] { steps_.FailHalfSent(); };
      store->PushOptimizerState(loaded.table, loaded.array, loaded.steps, loaded.values);
      std::move(fail).Cancel();
      pending_ = {loaded.table, loaded.array, Step(0), nullptr, loaded};
    }
  }
  RETURN_IF_ERROR(WaitFor(LayerOf(loaded.table), *store, deadline));
  MutexLock lock(&mu_);
  pending_.reset();
  return absl::OkStatus();
}

absl::Status ProgramOptimizerState::Keep(TableId table,
                                         absl::Span<const absl::Span<const float>> arrays,
                                         bool is_last, absl::Duration limit) {
  const absl::Time deadline = clock_.Now() + limit;
  RETURN_IF_ERROR(CheckKept(table, arrays));
  return steps_.Explain(KeepUntil(table, arrays, is_last, deadline), deadline);
}

absl::Status ProgramOptimizerState::CheckKept(
    TableId table, absl::Span<const absl::Span<const float>> arrays) const {
  if (table.value() >= tables_.size() || !tables_[table.value()].replies_mean()) {
    return absl::InvalidArgumentError(
        absl::StrCat("table: expected one whose optimizer the program runs, got ", table.value()));
  }
  const v1::TableSpec& spec = tables_[table.value()];
  const uint64_t elements = ElementsOf(spec);
  const bool has_size = absl::c_all_of(
      arrays, [elements](absl::Span<const float> one) { return one.size() == elements; });
  if (!arrays.empty() && arrays.size() <= 1 + kMaxTableStateArrays && has_size)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "table ", spec.name(), ": expected its parameters and at most ", kMaxTableStateArrays,
      " arrays of the optimizer's state, each of ", elements, " numbers, got ", arrays.size()));
}

absl::Status ProgramOptimizerState::KeepUntil(TableId table,
                                              absl::Span<const absl::Span<const float>> arrays,
                                              bool is_last, absl::Time deadline) {
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  if (store == nullptr) {
    return absl::FailedPreconditionError(
        "the worker has finished: keep the table before capstan_finish");
  }
  if (steps_.IsPushed(static_cast<size_t>(LayerOf(table)))) {
    return absl::FailedPreconditionError(
        absl::StrCat("table ", tables_[table.value()].name(),
                     " was pushed in the step that goes on: keep it before a step's pushes"));
  }
  RETURN_IF_ERROR(WaitFor(LayerOf(table), *store, deadline));
  {
    MutexLock lock(&mu_);
    // If the time has passed, the same call goes on.
    const auto last = last_kept_.find(table);
    const bool is_sent = is_last && last != last_kept_.end() && last->second == steps_.current();
    if (is_sent || !(is_last || store->IsTableStateDue(table))) return absl::OkStatus();
    // Only checkpoints have the optimizer's state.
    if (job_.checkpoint().dir().empty()) arrays = arrays.first(1);
    auto copies = std::make_shared<std::vector<std::vector<float>>>();
    for (const absl::Span<const float> array : arrays) {
      copies->emplace_back(array.begin(), array.end());
    }
    absl::Cleanup fail = [this] { steps_.FailHalfSent(); };
    if (is_last) last_kept_[table] = steps_.current();
    store->PushTableState(table, is_last, std::move(copies));
    std::move(fail).Cancel();
  }
  return WaitFor(LayerOf(table), *store, deadline);
}

absl::Status ProgramOptimizerState::CheckIsKept(int layer, const ParameterStore& store) const {
  if (store.due_table_states() == 0) return absl::OkStatus();
  for (uint32_t id = 0; id < tables_.size(); ++id) {
    if (LayerOf(TableId(id)) != layer || tables_[id].has_sparse()) continue;
    if (!store.IsTableStateDue(TableId(id))) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "a checkpoint waits for the parameters of table ", tables_[id].name(),
        ": call capstan_keep_table before the step's pushes, if capstan_worker_state_due says so"));
  }
  return absl::OkStatus();
}

absl::Status ProgramOptimizerState::CheckLastIsKept(const ParameterStore& store) const {
  if (store.sender().worker != WorkerId(0)) return absl::OkStatus();
  MutexLock lock(&mu_);
  for (uint32_t id = 0; id < tables_.size(); ++id) {
    const auto last = last_kept_.find(TableId(id));
    const bool is_kept = last != last_kept_.end() && last->second == steps_.current();
    const bool is_elsewhere = store.values()[id].empty();
    if (!tables_[id].replies_mean() || is_kept || is_elsewhere) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the servers lack the last parameters of table ", tables_[id].name(),
        ": call capstan_keep_table with is_last (in Python keep) before capstan_finish"));
  }
  return absl::OkStatus();
}

absl::Status ProgramOptimizerState::CheckIsFirstStep() const {
  Step first_step;
  {
    MutexLock lock(&mu_);
    first_step = first_step_;
  }
  bool is_first = steps_.current() == first_step;
  for (size_t part = 0; part < parts_; ++part) is_first = is_first && !steps_.IsPushed(part);
  if (is_first) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "load the optimizer's state before the first gradient is pushed");
}

absl::Status ProgramOptimizerState::WaitFor(int layer, ParameterStore& store, absl::Time deadline) {
  return steps_.WaitIn(store, deadline, "values are on their way",
                       [&](absl::Duration limit) { return store.WaitForLayerFor(layer, limit); });
}

}  // namespace capstan
