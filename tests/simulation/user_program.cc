#include "tests/simulation/user_program.h"

#include "common/base/random.h"

namespace capstan {
namespace {

// Of these numbers alone. `kind` tells draws for different things apart.
Random DrawsOf(uint64_t seed, uint64_t kind, uint64_t worker, Step step, uint64_t place) {
  const uint64_t turn = (worker << 32) + static_cast<uint64_t>(step.value());
  return Random(/*seed=*/(seed << 16) + (kind << 8) + place, /*stream=*/turn);
}

}  // namespace

bool UserProgram::HasGradient(WorkerId worker, Step step, uint32_t layer) const {
  if (!HasBatch(worker, step)) return false;
  if (DrawsOf(seed, /*kind=*/0, /*worker=*/0, step, layer).Bernoulli(idle)) return false;
  return !DrawsOf(seed, /*kind=*/1, worker.value(), step, layer).Bernoulli(without_gradient);
}

std::optional<double> UserProgram::LearningRate(WorkerId worker, Step step, TableId table) const {
  if (!has_learning_rates || step < first_rate) return std::nullopt;
  const uint64_t of_worker = has_rates_by_worker ? worker.value() : 0;
  Random draws = DrawsOf(seed, /*kind=*/2, of_worker, step, table.value());
  constexpr double kRates[] = {0.25, 0.5, 1, 2, 4};
  const double rate = kRates[draws.UniformInt(5)];
  return has_rates_by_worker && rate == 4 ? 0 : rate;
}

std::optional<double> UserProgram::Momentum(WorkerId worker, Step step, TableId table) const {
  if (!has_learning_rates || step < first_rate) return std::nullopt;
  const uint64_t of_worker = has_rates_by_worker ? worker.value() : 0;
  constexpr double kMomenta[] = {0, 0.125, 0.25, 0.5};
  return kMomenta[DrawsOf(seed, /*kind=*/3, of_worker, step, table.value()).UniformInt(4)];
}

float UserProgram::InitialValue(SliceKey key, size_t element) const {
  const size_t multiple = 1 + (key.table.value() + key.slice.value() + element) % 7;
  return initial_unit * static_cast<float>(multiple);
}

int64_t UserProgram::LocalStepsOf(WorkerId worker, Step round) const {
  if (local_steps->sync_every() > 0) return local_steps->sync_every();
  constexpr uint64_t kMost = 9;
  Random draws = DrawsOf(seed, /*kind=*/4, worker.value(), round, /*place=*/0);
  return 1 + static_cast<int64_t>(draws.UniformInt(kMost));
}

void UserProgram::StepLocally(WorkerId worker, Step round, int64_t number, TableId table,
                              size_t index, LocalElement& element) {
  uint64_t mixed = worker.value();
  for (const uint64_t next : {static_cast<uint64_t>(round.value()), static_cast<uint64_t>(number),
                              uint64_t{table.value()}, uint64_t{index}}) {
    mixed = (mixed + next + 1) * 0x9E3779B97F4A7C15;
    mixed ^= mixed >> 32;
  }
  const float target = 0.1f * (static_cast<float>(mixed % 41) - 20);
  element.momentum = 0.5f * element.momentum + 0.25f * (target - element.value);
  element.value += 0.5f * element.momentum;
}

}  // namespace capstan
