#include "tests/simulation/scripted_program.h"

#include <glog/logging.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/history/history.h"
#include "common/job/job_properties.h"
#include "common/routing/job_view.h"
#include "common/tensor/slicing.h"
#include "tests/simulation/in_parts.h"
#include "tests/simulation/known_rows.h"
#include "worker/models/training/evaluate.h"

namespace capstan {
namespace {

// Row-major, as the program gives them.
std::vector<float> InitialValuesOf(const Scenario& scenario, TableId id) {
  const v1::TableSpec& table = scenario.tables[id.value()];
  std::vector<float> values;
  if (!table.initial_from_worker()) return values;
  const Slicing slicing(ElementCount(table), SliceBytes(scenario.job.scheduler()));
  for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
    const SliceKey key{id, SliceIndex(slice)};
    for (size_t i = 0; i < slicing.Range(key.slice).size; ++i) {
      values.push_back(scenario.program->InitialValue(key, i));
    }
  }
  return values;
}

class ProgramLayers : public StepLayers {
 public:
  // Layers that `is_used` leaves out are not waited for.
  ProgramLayers(ProgramEngine* engine, std::function<bool(int layer)> is_used)
      : engine_(*engine), is_used_(std::move(is_used)) {}

  absl::Status Wait(int layer) override {
    if (!is_used_(layer)) return absl::OkStatus();
    return InParts([&] { return engine_.Wait(layer, kPart); });
  }
  absl::Span<const absl::Span<float>> gradients() override { return engine_.gradients(); }
  void SetLearningRate(TableId table, double learning_rate) override {
    // Its error comes again with the push.
    engine_.SetLearningRate(table, learning_rate).IgnoreError();
  }
  void SetMomentum(TableId table, double momentum) override {
    engine_.SetMomentum(table, momentum).IgnoreError();
  }
  absl::Status Push(int layer) override {
    return InParts([&] { return engine_.Push(layer, kPart); });
  }
  // EndStep does it.
  absl::Status PushNothing(int /*layer*/) override { return absl::OkStatus(); }

 private:
  ProgramEngine& engine_;
  const std::function<bool(int layer)> is_used_;
};

}  // namespace

ScriptedProgram::ScriptedProgram(const Scenario& scenario, uint32_t process, Clock* clock,
                                 Clock* second, Spawner spawn, RowsCallback on_rows,
                                 ReducedCallback on_reduced, StateCallback on_state)
    : scenario_(scenario),
      clock_(clock),
      spawn_(std::move(spawn)),
      on_rows_(std::move(on_rows)),
      on_reduced_(std::move(on_reduced)),
      on_state_(std::move(on_state)),
      script_(MakeScriptedEngine(scenario, process, clock, /*on_first_state=*/nullptr)),
      engine_(MakeEngine(clock, /*is_second=*/false)),
      is_first_(process < scenario.job.cluster().num_workers()) {
  if (second != nullptr) second_ = MakeEngine(second, /*is_second=*/true);
  if (scenario.program->local_steps.has_value()) {
    rounds_ = std::make_unique<LocalRounds>(scenario, process, clock, engine_.get(), second_.get());
  }
}

std::shared_ptr<ProgramEngine> ScriptedProgram::MakeEngine(Clock* clock, bool is_second) const {
  ProgramEngine::Options options;
  options.clock = clock;
  options.tables = scenario_.tables;
  for (uint32_t table = 0; table < scenario_.tables.size(); ++table) {
    options.initial.push_back(InitialValuesOf(scenario_, TableId(table)));
    options.elsewhere.push_back(scenario_.program->IsOfSecond(table) != is_second);
  }
  options.is_part = is_second;
  // Checkpoints need the number of steps.
  const bool announces = !scenario_.job.checkpoint().dir().empty() || scenario_.seed % 2 == 0;
  options.steps = announces ? scenario_.steps + scenario_.program->steps_left_out : 0;
  options.job = scenario_.job;
  // Others push ahead of the answers to the step before.
  options.is_replaceable = scenario_.job.membership().replace_seconds() > 0;
  options.local_steps = scenario_.program->local_steps;
  return std::make_shared<ProgramEngine>(std::move(options));
}

JobSetup ScriptedProgram::Start() {
  spawn_([self = shared_from_this()] {
    const absl::Status status = self->Run();
    VLOG(1) << "program of worker " << self->worker_ << ": " << status;
    if (status.ok()) return;
    // As an exception that nobody catches does.
    self->engine_->steps().Fail(status);
    if (self->second_ != nullptr) self->second_->steps().Fail(status);
  });
  return SetupOf(engine_);
}

JobSetup ScriptedProgram::SetupOf(const std::shared_ptr<ProgramEngine>& engine) {
  JobSetup setup;
  setup.engine = engine;
  setup.steps = engine->steps().announced_steps();
  setup.evaluate = [engine](Step steps, ParameterStore& store, v1::ReportResultRequest& result) {
    return engine->Evaluate(steps, store, result);
  };
  return setup;
}

absl::Status ScriptedProgram::Pull(Step step, const std::vector<uint64_t>& keys) {
  const TableId table = sparse_table();
  RETURN_IF_ERROR(InParts([&] { return engine_->rows().Pull(table, keys, kPart); }));
  std::vector<float> rows(keys.size() * scenario_.tables.back().sparse().dim());
  RETURN_IF_ERROR(
      InParts([&] { return engine_->rows().Read(table, absl::MakeSpan(rows), kPart); }));
  if (scenario_.has_known_end) on_rows_(step, keys, rows);
  return absl::OkStatus();
}

absl::Status ScriptedProgram::SetRateOfRows(Step step) {
  // In all shards the first worker's counts, with a gradient or without.
  const auto rate = scenario_.program->LearningRate(worker_, step, sparse_table());
  return rate.has_value() ? engine_->SetLearningRate(sparse_table(), *rate) : absl::OkStatus();
}

absl::Status ScriptedProgram::TrainKnownRows(Step step) {
  const TableId table = sparse_table();
  const UserProgram& program = *scenario_.program;
  RETURN_IF_ERROR(SetRateOfRows(step));
  const std::vector<uint64_t> keys = RowKeysOf(scenario_, worker_, step);
  const uint64_t variant = scenario_.seed + static_cast<uint64_t>(step.value());
  // A push of what was pulled last does not send the keys. Before that, others may be pulled.
  if (variant % 5 == 0) {
    RETURN_IF_ERROR(Pull(step, RowKeysOf(scenario_, worker_, step + 1)));
  }
  if (variant % 4 != 0) RETURN_IF_ERROR(Pull(step, keys));
  if (!program.HasGradient(worker_, step, scenario_.tables.back().layer())) {
    return absl::OkStatus();
  }
  const std::vector<float> gradients = RowGradientsOf(scenario_, worker_, step, keys);
  std::vector<uint64_t> next;
  if (variant % 3 != 0) next = RowKeysOf(scenario_, worker_, step + 1);
  return InParts([&] { return engine_->rows().Push(table, keys, gradients, next, kPart); });
}

absl::Status ScriptedProgram::TrainRows(Step step) {
  const TableId table = sparse_table();
  const std::vector<std::vector<uint64_t>> by_shard = SparseKeysByShard(scenario_.job);
  std::vector<uint64_t> all, own;
  for (const std::vector<uint64_t>& keys : by_shard) {
    all.insert(all.end(), keys.begin(), keys.end());
    own.push_back(keys[worker_.value()]);
  }
  const auto dim = static_cast<size_t>(scenario_.steps);
  // A push of what was pulled does not send the keys; a push of its own rows does.
  const uint64_t variant = scenario_.seed + static_cast<uint64_t>(step.value());
  const bool pulls = variant % 4 != 0;
  if (pulls) RETURN_IF_ERROR(Pull(step, all));
  const UserProgram& program = *scenario_.program;
  const uint32_t layer = scenario_.tables[table.value()].layer();
  if (!program.HasGradient(worker_, step, layer)) return absl::OkStatus();
  const auto rate = program.LearningRate(worker_, step, table);
  if (rate.has_value()) RETURN_IF_ERROR(engine_->SetLearningRate(table, *rate));
  const bool pushes_all = pulls && variant % 2 == 1;
  const std::vector<uint64_t>& keys = pushes_all ? all : own;
  std::vector<float> gradients(keys.size() * dim);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (std::find(own.begin(), own.end(), keys[i]) == own.end()) continue;
    gradients[i * dim + static_cast<size_t>(step.value())] =
        -kTestUpdate / static_cast<float>(program.has_rates_by_worker ? 1 : rate.value_or(1));
  }
  const std::vector<uint64_t> next = variant % 3 == 0 ? std::vector<uint64_t>() : all;
  return InParts([&] { return engine_->rows().Push(table, keys, gradients, next, kPart); });
}

// The first of a step's operations are before its gradients, the others after them. Each worker
// gives its bit, and above it the step, so that a mixture of steps is seen.
absl::Status ScriptedProgram::Reduce(Step step, int first) {
  if (!scenario_.program->reduces) return absl::OkStatus();
  // Operations are within steps.
  if (first == 0) RETURN_IF_ERROR(InParts([this] { return engine_->Wait(/*layer=*/0, kPart); }));
  constexpr int kBits = 32;
  const auto count = static_cast<int>((scenario_.seed + static_cast<uint64_t>(step.value())) % 3);
  for (int number = first; number < std::min(count, first + 1); ++number) {
    const int64_t stamp = step.value() + 1;
    int64_t value = (int64_t{1} << worker_.value()) + (stamp << kBits);
    RETURN_IF_ERROR(InParts([&] {
      return engine_->collectives().Run(
          {CollectiveType::kSum, CollectiveDtype::kInt64, WorkerId(0)},
          {reinterpret_cast<uint8_t*>(&value), sizeof(value)}, kPart);
    }));
    const int64_t workers = value & ((int64_t{1} << kBits) - 1);
    const bool is_of_step =
        value >> kBits == stamp * absl::popcount(static_cast<uint64_t>(workers));
    on_reduced_(step, number, is_of_step ? workers : -1);
  }
  return absl::OkStatus();
}

absl::Status ScriptedProgram::PutState(Step step) {
  const std::string text = absl::StrCat(step.value());
  return engine_->worker_state().Put("step",
                                     {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

void ScriptedProgram::TellState() {
  const std::shared_ptr<const std::string> text = engine_->worker_state().Get("step");
  int64_t of_step = -1;
  if (text != nullptr && !absl::SimpleAtoi(*text, &of_step)) of_step = -2;
  on_state_(engine_->steps().current(), of_step);
}

absl::StatusOr<bool> ScriptedProgram::IsStateDue() {
  bool is_due = false;
  RETURN_IF_ERROR(InParts([&]() -> absl::Status {
    ASSIGN_OR_RETURN(is_due, engine_->worker_state().AwaitDue(kPart));
    return absl::OkStatus();
  }));
  return is_due;
}

// The optimizer's state is each value and 1.
absl::Status ScriptedProgram::TakeParameters() {
  for (uint32_t i = 0; i < scenario_.tables.size(); ++i) {
    if (!scenario_.tables[i].replies_mean()) continue;
    const TableId id(i);
    const auto layer = static_cast<int>(scenario_.tables[i].layer());
    RETURN_IF_ERROR(InParts([&] { return engine_->Wait(layer, kPart); }));
    const absl::Span<const float> values = engine_->values()[i];
    parameters_[id] = {{values.begin(), values.end()}, engine_->UpdatesOf(id)};
    if (engine_->steps().current() == Step(0)) continue;
    std::vector<float> state(values.size());
    uint64_t steps = 0;
    RETURN_IF_ERROR(InParts([&] {
      return engine_->optimizer_state().Read(id, /*array=*/0, absl::MakeSpan(state), &steps, kPart);
    }));
    for (size_t k = 0; k < state.size(); ++k) {
      if (state[k] != values[k] + 1) return absl::InternalError("the state is not the parameters'");
    }
  }
  return absl::OkStatus();
}

absl::Status ScriptedProgram::KeepParameters(bool is_last) {
  if (worker_ != WorkerId(0)) return absl::OkStatus();
  for (const auto& [id, parameters] : parameters_) {
    std::vector<float> state = parameters.values;
    for (float& value : state) value += 1;
    RETURN_IF_ERROR(InParts([&, id = id, &values = parameters.values] {
      return engine_->optimizer_state().Keep(id, {absl::MakeConstSpan(values), state}, is_last,
                                             kPart);
    }));
  }
  return absl::OkStatus();
}

absl::Status ScriptedProgram::StepParameters() {
  // Before it waits, others may wait for any of its layers.
  for (const v1::TableSpec& table : scenario_.tables) {
    const auto layer = static_cast<int>(table.layer());
    if (parameters_.empty() || table.has_sparse() || engine_->steps().IsPushed(layer)) continue;
    RETURN_IF_ERROR(InParts([&] { return engine_->PushNothing(layer, kPart); }));
  }
  for (auto& [id, parameters] : parameters_) {
    const auto layer = static_cast<int>(scenario_.tables[id.value()].layer());
    RETURN_IF_ERROR(InParts([&] { return engine_->Wait(layer, kPart); }));
    const int64_t updates = engine_->UpdatesOf(id);
    if (std::exchange(parameters.updates, updates) == updates) continue;
    const absl::Span<const float> mean = engine_->values()[id.value()];
    for (size_t k = 0; k < mean.size(); ++k) parameters.values[k] -= mean[k];
  }
  return absl::OkStatus();
}

// Half of the programs put their state in each step, the others when it is due.
absl::Status ScriptedProgram::TrainStep() {
  const Step step = engine_->steps().current();
  if (rounds_ != nullptr) {
    RETURN_IF_ERROR(Reduce(step, /*first=*/0));
    RETURN_IF_ERROR(rounds_->Train());
    return Reduce(step, /*first=*/1);
  }
  bool is_due = scenario_.seed % 4 < 2 && parameters_.empty();
  if (!is_due) {
    ASSIGN_OR_RETURN(is_due, IsStateDue());
  }
  if (is_due) {
    RETURN_IF_ERROR(KeepParameters(/*is_last=*/false));
    RETURN_IF_ERROR(PutState(step));
  }
  RETURN_IF_ERROR(Reduce(step, /*first=*/0));
  if (HasSparseTable(scenario_)) {
    RETURN_IF_ERROR(scenario_.has_known_end ? TrainKnownRows(step) : TrainRows(step));
  }
  // Half of the programs do not use layers without a gradient.
  ProgramLayers layers(engine_.get(), [this, step](int layer) {
    return scenario_.seed % 2 == 0 ||
           scenario_.program->HasGradient(worker_, step, static_cast<uint32_t>(layer));
  });
  RETURN_IF_ERROR(script_->Compute({worker_, step}, layers));
  // After a push it does not belong to this step any more.
  const bool has_pushed = std::any_of(
      scenario_.tables.begin(), scenario_.tables.end(), [this](const v1::TableSpec& table) {
        return !table.has_sparse() && engine_->steps().IsPushed(table.layer());
      });
  if (has_pushed && scenario_.seed % 4 < 2 && parameters_.empty()) {
    RETURN_IF_ERROR(PutState(step + 1));
  }
  RETURN_IF_ERROR(StepParameters());
  return Reduce(step, /*first=*/1);
}

absl::StatusOr<bool> ScriptedProgram::HasEnded() {
  const bool has_ended = engine_->steps().current() >= Step(scenario_.steps);
  const UserProgram& program = *scenario_.program;
  if (program.steps_left_out == 0 || !program.ends.empty()) return has_ended;
  // Operations are within steps.
  RETURN_IF_ERROR(InParts([this] { return engine_->Wait(/*layer=*/0, kPart); }));
  const bool flag = has_ended && (worker_ == WorkerId(0) || !program.rank_0_stops);
  bool stops = false;
  RETURN_IF_ERROR(InParts([&]() -> absl::Status {
    ASSIGN_OR_RETURN(stops, engine_->collectives().Stop(flag, kPart));
    return absl::OkStatus();
  }));
  if (stops != has_ended) {
    return absl::InternalError("the workers' decision is not that of their flags");
  }
  return has_ended;
}

absl::Status ScriptedProgram::TrainAll() {
  const auto end_step = [this]() -> absl::Status {
    for (ProgramEngine* const engine : {engine_.get(), second_.get()}) {
      if (engine == nullptr) continue;
      RETURN_IF_ERROR(
          InParts([engine] { return engine->EndStep(/*loss=*/0, /*samples=*/1, kPart); }));
    }
    return absl::OkStatus();
  };
  const UserProgram& program = *scenario_.program;
  while (program.HasBatch(worker_, engine_->steps().current())) {
    ASSIGN_OR_RETURN(const bool has_ended, HasEnded());
    if (has_ended) break;
    RETURN_IF_ERROR(TrainStep());
    RETURN_IF_ERROR(end_step());
  }
  bool others_go_on = !program.ends.empty();
  while (others_go_on) {
    RETURN_IF_ERROR(InParts([&]() -> absl::Status {
      ASSIGN_OR_RETURN(others_go_on, engine_->collectives().Join(kPart));
      return absl::OkStatus();
    }));
    if (!others_go_on) break;
    if (!parameters_.empty()) {
      ASSIGN_OR_RETURN(const bool is_due, IsStateDue());
      if (is_due) RETURN_IF_ERROR(KeepParameters(/*is_last=*/false));
    }
    RETURN_IF_ERROR(PutState(engine_->steps().current()));
    RETURN_IF_ERROR(StepParameters());
    if (HasSparseTable(scenario_)) RETURN_IF_ERROR(SetRateOfRows(engine_->steps().current()));
    RETURN_IF_ERROR(end_step());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ScriptedProgram::Finish() {
  // The last step of the first process counts as the worker's.
  if (second_ != nullptr) {
    RETURN_IF_ERROR(InParts([this] { return second_->Wait(/*layer=*/-1, kPart); }));
  }
  RETURN_IF_ERROR(engine_->End());
  if (second_ != nullptr) RETURN_IF_ERROR(second_->End());
  bool evaluates = false;
  for (ProgramEngine* const engine : {engine_.get(), second_.get()}) {
    if (engine == nullptr) continue;
    RETURN_IF_ERROR(InParts([&]() -> absl::Status {
      ASSIGN_OR_RETURN(evaluates, engine->steps().AwaitEvaluation(kPart));
      return absl::OkStatus();
    }));
  }
  if (second_ == nullptr || !evaluates) return evaluates;
  std::vector<absl::Span<const float>> parameters;
  for (uint32_t table = 0; table < scenario_.tables.size(); ++table) {
    ProgramEngine& engine = scenario_.program->IsOfSecond(table) ? *second_ : *engine_;
    parameters.push_back(engine.values()[table]);
  }
  parameters_xxh3_ = HashParameters(parameters);
  second_->steps().ReportNothing();
  return evaluates;
}

absl::Status ScriptedProgram::Run() {
  for (ProgramEngine* const engine : {engine_.get(), second_.get()}) {
    if (engine == nullptr) continue;
    RETURN_IF_ERROR(InParts([engine] { return engine->steps().AwaitStart(kPart); }));
  }
  if (is_first_) TellState();
  RETURN_IF_ERROR(PutState(engine_->steps().current()));
  RETURN_IF_ERROR(TakeParameters());
  if (rounds_ != nullptr) RETURN_IF_ERROR(rounds_->Begin(worker_));
  RETURN_IF_ERROR(TrainAll());
  RETURN_IF_ERROR(PutState(engine_->steps().current()));
  if (rounds_ != nullptr) RETURN_IF_ERROR(rounds_->End());
  RETURN_IF_ERROR(KeepParameters(/*is_last=*/true));
  SleepUntil(*clock_, clock_->Now() + scenario_.program->validation);
  ASSIGN_OR_RETURN(const bool evaluates, Finish());
  if (!evaluates) return absl::OkStatus();
  if (HasSparseTable(scenario_) && scenario_.has_known_end) {
    RETURN_IF_ERROR(Pull(engine_->steps().current(), AllRowKeys()));
  }
  return InParts([this] { return engine_->steps().Report({}, kPart); });
}

}  // namespace capstan
