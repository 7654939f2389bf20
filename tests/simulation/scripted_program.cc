#include "tests/simulation/scripted_program.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/history/history.h"
#include "common/job/job_properties.h"
#include "common/routing/job_view.h"
#include "common/tensor/slicing.h"
#include "tests/simulation/known_rows.h"

namespace capstan {
namespace {

// A program that waits in parts can do something else meanwhile, as Python does.
constexpr absl::Duration kPart = absl::Milliseconds(100);

absl::Status InParts(absl::FunctionRef<absl::Status()> call) {
  while (true) {
    absl::Status status = call();
    if (!absl::IsDeadlineExceeded(status)) return status;
  }
}

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
  explicit ProgramLayers(ProgramEngine* engine) : engine_(*engine) {}

  absl::Status Wait(int layer) override {
    return InParts([&] { return engine_.Wait(layer, kPart); });
  }
  absl::Span<const absl::Span<float>> gradients() override { return engine_.gradients(); }
  void SetLearningRate(TableId table, double learning_rate) override {
    // Its error comes again with the push.
    engine_.SetLearningRate(table, learning_rate).IgnoreError();
  }
  absl::Status Push(int layer) override {
    return InParts([&] { return engine_.Push(layer, kPart); });
  }
  // EndStep does it.
  absl::Status PushNothing(int /*layer*/) override { return absl::OkStatus(); }

 private:
  ProgramEngine& engine_;
};

}  // namespace

ScriptedProgram::ScriptedProgram(const Scenario& scenario, uint32_t process, Clock* clock,
                                 Spawner spawn, std::function<void(std::vector<float>)> on_rows)
    : scenario_(scenario),
      spawn_(std::move(spawn)),
      on_rows_(std::move(on_rows)),
      script_(MakeScriptedEngine(scenario, process, clock, /*on_first_state=*/nullptr)) {
  ProgramEngine::Options options;
  options.clock = clock;
  options.tables = scenario.tables;
  for (uint32_t table = 0; table < scenario.tables.size(); ++table) {
    options.initial.push_back(InitialValuesOf(scenario, TableId(table)));
  }
  // Checkpoints need the number of steps.
  const bool announces = !scenario.job.checkpoint().dir().empty() || scenario.seed % 2 == 0;
  options.steps = announces ? scenario.steps : 0;
  engine_ = std::make_shared<ProgramEngine>(std::move(options));
}

JobSetup ScriptedProgram::Start() {
  spawn_([self = shared_from_this()] {
    const absl::Status status = self->Run();
    VLOG(1) << "program of worker " << self->worker_ << ": " << status;
  });
  JobSetup setup;
  setup.engine = engine_;
  setup.steps = engine_->steps().announced_steps();
  setup.evaluate = [engine = engine_](Step steps, ParameterStore& store,
                                      v1::ReportResultRequest& result) {
    return engine->Evaluate(steps, store, result);
  };
  return setup;
}

absl::StatusOr<std::vector<float>> ScriptedProgram::Pull(const std::vector<uint64_t>& keys) {
  const TableId table = sparse_table();
  RETURN_IF_ERROR(InParts([&] { return engine_->rows().Pull(table, keys, kPart); }));
  std::vector<float> rows(keys.size() * scenario_.tables.back().sparse().dim());
  RETURN_IF_ERROR(
      InParts([&] { return engine_->rows().Read(table, absl::MakeSpan(rows), kPart); }));
  return rows;
}

absl::Status ScriptedProgram::TrainKnownRows(Step step) {
  const TableId table = sparse_table();
  const UserProgram& program = *scenario_.program;
  // In all shards the first worker's counts, with a gradient or without.
  const auto rate = program.LearningRate(worker_, step, table);
  if (rate.has_value()) RETURN_IF_ERROR(engine_->SetLearningRate(table, *rate));
  const std::vector<uint64_t> keys = RowKeysOf(scenario_, worker_, step);
  const uint64_t variant = scenario_.seed + static_cast<uint64_t>(step.value());
  // A push of what was pulled last does not send the keys. Before that, others may be pulled.
  if (variant % 5 == 0) {
    RETURN_IF_ERROR(Pull(RowKeysOf(scenario_, worker_, step + 1)).status());
  }
  if (variant % 4 != 0) RETURN_IF_ERROR(Pull(keys).status());
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
  if (pulls) RETURN_IF_ERROR(Pull(all).status());
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

absl::Status ScriptedProgram::Run() {
  RETURN_IF_ERROR(InParts([this] { return engine_->steps().AwaitStart(kPart); }));
  ProgramLayers layers(engine_.get());
  while (engine_->steps().current() < Step(scenario_.steps)) {
    if (HasSparseTable(scenario_)) {
      const Step step = engine_->steps().current();
      RETURN_IF_ERROR(scenario_.has_known_end ? TrainKnownRows(step) : TrainRows(step));
    }
    RETURN_IF_ERROR(script_->Compute({worker_, engine_->steps().current()}, layers));
    RETURN_IF_ERROR(InParts([this] { return engine_->EndStep(/*loss=*/0, /*samples=*/1, kPart); }));
  }
  RETURN_IF_ERROR(engine_->steps().End());
  bool evaluates = false;
  RETURN_IF_ERROR(InParts([&]() -> absl::Status {
    ASSIGN_OR_RETURN(evaluates, engine_->steps().AwaitEvaluation(kPart));
    return absl::OkStatus();
  }));
  if (!evaluates) return absl::OkStatus();
  if (HasSparseTable(scenario_) && scenario_.has_known_end) {
    ASSIGN_OR_RETURN(std::vector<float> rows, Pull(AllRowKeys()));
    on_rows_(std::move(rows));
  }
  return InParts([this] { return engine_->steps().Report({}, kPart); });
}

}  // namespace capstan
