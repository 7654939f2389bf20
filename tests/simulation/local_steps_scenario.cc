#include "tests/simulation/local_steps_scenario.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace capstan {
namespace {

v1::LocalSteps DrawRounds(Random& random, size_t layers) {
  v1::LocalSteps rounds;
  rounds.set_fragments(static_cast<uint32_t>(1 + random.UniformInt(layers)));
  if (random.Bernoulli(0.5)) {
    rounds.set_round_seconds(0.01);
    // Sometimes longer than it takes until the next push of the fragment.
    rounds.set_fragment_sync_delay(static_cast<uint32_t>(random.UniformInt(7)));
    return rounds;
  }
  const uint64_t between_pushes = 1 + random.UniformInt(5);
  rounds.set_sync_every(static_cast<int64_t>(rounds.fragments() * between_pushes));
  rounds.set_fragment_sync_delay(static_cast<uint32_t>(random.UniformInt(between_pushes)));
  return rounds;
}

// Lives that are to end early mostly do so by a loss of power, in the middle of the rounds.
void DrawLongRounds(Random& random, const std::vector<Scenario*>& lives) {
  const absl::Duration mean = absl::Milliseconds(10) * (1 + random.UniformFloat());
  const double slowness = random.Bernoulli(0.3) ? 4 : 1;
  const uint64_t checkpoint_steps = 1 + random.UniformInt(2);
  for (Scenario* life : lives) {
    life->compute_time = [mean, slowness](uint32_t worker, Random& draws) {
      return mean * (0.5 + draws.UniformFloat()) * (worker == 0 ? slowness : 1);
    };
    if (life->job.checkpoint().dir().empty()) continue;
    life->job.mutable_checkpoint()->set_steps(checkpoint_steps);
    if (life == lives.back() || random.Bernoulli(0.2)) continue;
    life->faults.erase(
        std::remove_if(life->faults.begin(), life->faults.end(),
                       [](const Fault& fault) { return fault.kind == Fault::Kind::kKillServer; }),
        life->faults.end());
    life->power_cut = absl::Milliseconds(30) + (0.2 + 0.8 * random.UniformFloat()) * slowness *
                                                   mean * static_cast<double>(life->steps);
  }
}

}  // namespace

void DrawLocalSteps(Random& random, bool is_always_bsp, const std::vector<Scenario*>& lives) {
  const uint64_t tables =
      std::max<uint64_t>(lives.front()->tables.size(), 1 + random.UniformInt(4));
  const v1::LocalSteps rounds = DrawRounds(random, tables);
  DrawLongRounds(random, lives);
  const bool has_nesterov = is_always_bsp && random.Bernoulli(0.7);
  const bool has_two_processes = tables > 1 && random.Bernoulli(0.5);
  for (Scenario* life : lives) {
    UserProgram& program = *life->program;
    program.local_steps = rounds;
    program.has_two_processes = has_two_processes;
    program.idle = 0;
    program.without_gradient = 0;
    program.has_learning_rates = false;
    program.has_rates_by_worker = false;
    program.initial_unit = 1;
    life->has_known_end = false;
    life->has_recorded_values = false;
    life->job.mutable_consistency()->clear_update_scale();
    if (is_always_bsp) life->pushes_ahead = false;
    for (uint32_t table = 0; table < tables; ++table) {
      if (table == life->tables.size()) life->tables.push_back(life->tables.back());
      life->tables[table].set_name(absl::StrCat("table", table));
      life->tables[table].set_layer(table);
    }
    if (!has_nesterov) continue;
    v1::OptimizerSpec& optimizer = *life->job.mutable_optimizer();
    optimizer.set_type(v1::OptimizerSpec::NESTEROV);
    optimizer.set_learning_rate(0.75);
    optimizer.set_momentum(0.875);
  }
}

}  // namespace capstan
