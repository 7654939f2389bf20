#include "tests/simulation/local_rounds.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/simulation/in_parts.h"

namespace capstan {

LocalRounds::LocalRounds(const Scenario& scenario, uint32_t process, Clock* clock,
                         ProgramEngine* engine, ProgramEngine* second)
    : scenario_(scenario),
      program_(*scenario.program),
      clock_(*clock),
      engine_(*engine),
      second_(second),
      compute_time_([&scenario, process, random = ComputeRandom(scenario, process)]() mutable {
        return scenario.compute_time(process, random);
      }),
      layers_(scenario.tables.size()) {}

absl::Status LocalRounds::Begin(WorkerId worker) {
  worker_ = worker;
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, engine_.steps().LeaseStore());
  if (store == nullptr) return absl::OkStatus();  // All steps are done.
  incarnation_ = store->sender().incarnation;
  for (uint32_t i = 0; i < layers_.size(); ++i) {
    RETURN_IF_ERROR(InParts([&] { return EngineOf(i).Wait(static_cast<int>(i), kPart); }));
    const absl::Span<const float> values = EngineOf(i).values()[i];
    layers_[i].base.assign(values.begin(), values.end());
    for (const float value : values) layers_[i].elements.push_back({value, 0});
    layers_[i].pushed.resize(values.size());
  }
  const std::shared_ptr<const std::string> restored = engine_.worker_state().Get(kRoundsState);
  if (restored != nullptr) {
    std::vector<double> state(restored->size() / sizeof(double));
    std::memcpy(state.data(), restored->data(), restored->size());
    SetState(state);
  }
  return Put(engine_.steps().current(), State());
}

absl::Status LocalRounds::Train() {
  // The job has ended, or the worker has left, before the first values were there.
  const bool has_begun = !layers_.front().elements.empty();
  if (!has_begun) return InParts([this] { return engine_.Wait(/*layer=*/-1, kPart); });
  const Step round = engine_.steps().current();
  const int64_t steps = program_.LocalStepsOf(worker_, round);
  const std::string state = State();
  // Half of the programs put their state in each round, the others when it is due.
  const bool puts_each = scenario_.seed % 4 < 2;
  if (puts_each) RETURN_IF_ERROR(Put(round, state));
  const absl::Duration compute_time = compute_time_();
  uint32_t pushed = 0;
  for (int64_t number = 1; number <= steps; ++number) {
    for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
      if (layers_[layer].is_open && layers_[layer].due == 0) RETURN_IF_ERROR(Take(layer));
    }
    SleepUntil(clock_, clock_.Now() + compute_time / steps);
    StepLocally(round, number);
    const int64_t due = number * program_.local_steps->fragments() / steps;
    if (pushed == 0 && due > 0 && !puts_each) RETURN_IF_ERROR(PutIfDue(round, state));
    for (; pushed < due; ++pushed) RETURN_IF_ERROR(Push(pushed));
  }
  return engine_.NoteRound(steps, /*drift=*/0.5);
}

void LocalRounds::StepLocally(Step round, int64_t number) {
  for (uint32_t table = 0; table < layers_.size(); ++table) {
    Layer& layer = layers_[table];
    for (size_t i = 0; i < layer.elements.size(); ++i) {
      UserProgram::StepLocally(worker_, round, number, TableId(table), i, layer.elements[i]);
    }
    if (layer.is_open) --layer.due;
  }
}

absl::Status LocalRounds::Take(uint32_t layer) {
  ProgramEngine& engine = EngineOf(layer);
  RETURN_IF_ERROR(InParts([&] { return engine.Wait(static_cast<int>(layer), kPart); }));
  Layer& taken = layers_[layer];
  const absl::Span<const float> values = engine.values()[layer];
  taken.base.assign(values.begin(), values.end());
  const bool keeps = program_.local_steps->fragment_sync_delay() > 0;
  for (size_t i = 0; i < values.size(); ++i) {
    float& local = taken.elements[i].value;
    local = keeps ? values[i] + (local - taken.pushed[i]) : values[i];
  }
  taken.is_open = false;
  return absl::OkStatus();
}

absl::Status LocalRounds::Push(uint32_t fragment) {
  for (uint32_t table = 0; table < layers_.size(); ++table) {
    if (program_.FragmentOf(table, layers_.size()) != fragment) continue;
    // A round by time may have few steps.
    if (layers_[table].is_open) RETURN_IF_ERROR(Take(table));
    Layer& layer = layers_[table];
    ProgramEngine& engine = EngineOf(table);
    const absl::Span<float> gradient = engine.gradients()[table];
    for (size_t i = 0; i < gradient.size(); ++i) {
      layer.pushed[i] = layer.elements[i].value;
      gradient[i] = layer.base[i] - layer.pushed[i];
    }
    layer.is_open = true;
    layer.due = program_.local_steps->fragment_sync_delay();
    RETURN_IF_ERROR(InParts([&] { return engine.Push(static_cast<int>(table), kPart); }));
  }
  return absl::OkStatus();
}

std::string LocalRounds::State() const {
  std::vector<double> state = {static_cast<double>(incarnation_.value()),
                               static_cast<double>(engine_.steps().current().value())};
  for (const Layer& layer : layers_) {
    state.push_back(layer.is_open ? 1 : 0);
    state.push_back(static_cast<double>(layer.due));
    for (size_t i = 0; i < layer.elements.size(); ++i) {
      state.push_back(static_cast<double>(layer.elements[i].value));
      state.push_back(static_cast<double>(layer.elements[i].momentum));
      state.push_back(static_cast<double>(layer.pushed[i]));
    }
  }
  return {reinterpret_cast<const char*>(state.data()), state.size() * sizeof(double)};
}

void LocalRounds::SetState(absl::Span<const double> state) {
  state.remove_prefix(2);
  const auto next = [&state] {
    const double first = state.front();
    state.remove_prefix(1);
    return first;
  };
  for (Layer& layer : layers_) {
    layer.is_open = next() != 0;
    layer.due = static_cast<int64_t>(next());
    for (size_t i = 0; i < layer.elements.size(); ++i) {
      layer.elements[i].value = static_cast<float>(next());
      layer.elements[i].momentum = static_cast<float>(next());
      layer.pushed[i] = static_cast<float>(next());
    }
  }
}

absl::Status LocalRounds::Put(Step round, const std::string& state) {
  const std::string number = absl::StrCat(round.value());
  RETURN_IF_ERROR(engine_.worker_state().Put(
      "step", {reinterpret_cast<const uint8_t*>(number.data()), number.size()}));
  return engine_.worker_state().Put(kRoundsState,
                                    {reinterpret_cast<const uint8_t*>(state.data()), state.size()});
}

absl::Status LocalRounds::PutIfDue(Step round, const std::string& state) {
  bool is_due = false;
  RETURN_IF_ERROR(InParts([&]() -> absl::Status {
    ASSIGN_OR_RETURN(is_due, engine_.worker_state().AwaitDue(kPart));
    return absl::OkStatus();
  }));
  return is_due ? Put(round, state) : absl::OkStatus();
}

}  // namespace capstan
