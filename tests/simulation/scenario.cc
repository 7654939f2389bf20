#include "tests/simulation/scenario.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/codec/table_codecs.h"
#include "common/routing/key_shard.h"
#include "tests/simulation/local_steps_scenario.h"

namespace capstan {
namespace {

constexpr absl::Duration kLease = absl::Milliseconds(500);

int64_t Between(Random& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(most - least + 1)));
}

absl::Duration Between(Random& random, absl::Duration least, absl::Duration most) {
  return least + random.UniformFloat() * (most - least);
}

// Small more often than large.
uint32_t Size(Random& random, int64_t usual, int64_t most) {
  return static_cast<uint32_t>(Between(random, 1, random.Bernoulli(0.7) ? usual : most));
}

void DrawConsistency(Random& random, v1::ConsistencySpec& consistency) {
  const double kind = random.UniformFloat();
  if (kind < 0.4) {
    consistency.set_mode(v1::ConsistencySpec::BSP);
  } else if (kind < 0.85) {
    consistency.set_mode(v1::ConsistencySpec::SSP);
    consistency.set_staleness(Between(random, 0, 4));
  } else {
    consistency.set_mode(v1::ConsistencySpec::ASYNC);
  }
}

void DrawUpdateScale(Random& random, v1::ConsistencySpec& consistency) {
  const double kind = random.UniformFloat();
  if (kind < 0.8) return;
  consistency.set_update_scale(kind < 0.9 ? v1::ConsistencySpec::MEAN : v1::ConsistencySpec::SUM);
}

void DrawTableStaleness(Random& random, const std::vector<v1::TableSpec>& tables,
                        v1::ConsistencySpec& consistency) {
  if (consistency.mode() != v1::ConsistencySpec::SSP || !random.Bernoulli(0.3)) return;
  for (const v1::TableSpec& table : tables) {
    if (random.Bernoulli(0.5)) continue;
    v1::TableStaleness& own = *consistency.add_table_staleness();
    own.set_table(table.name());
    own.set_staleness(Between(random, 0, 6));
  }
}

void DrawSettings(Random& random, Scenario& scenario) {
  const int64_t count = Between(random, 1, 3);
  for (int64_t i = 0; i < count; ++i) {
    ConsistencySetting& setting = scenario.settings.emplace_back();
    setting.at = Between(random, absl::ZeroDuration(), absl::Milliseconds(10) * scenario.steps);
    DrawConsistency(random, setting.change);
    DrawTableStaleness(random, scenario.tables, setting.change);
  }
}

void DrawJob(Random& random, Scenario& scenario) {
  v1::JobSpec& job = scenario.job;
  job.set_seed(scenario.seed);
  const uint32_t num_workers = Size(random, 4, 16);
  job.mutable_cluster()->set_num_workers(num_workers);
  job.mutable_cluster()->set_num_servers(Size(random, 3, 8));
  job.mutable_cluster()->set_shard_count(static_cast<uint32_t>(Between(random, 1, 12)));
  scenario.steps = Between(random, 3, num_workers > 8 ? 6 : 10);
  // Changes then begin before the end.
  const bool may_change = random.Bernoulli(0.4);
  if (may_change) scenario.steps += 8;
  DrawConsistency(random, *job.mutable_consistency());
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  job.mutable_optimizer()->set_learning_rate(1);
  const uint64_t slice_elements = num_workers * static_cast<uint64_t>(scenario.steps);
  job.mutable_scheduler()->set_slice_bytes(slice_elements * sizeof(float));
  scenario.pushes_ahead = random.Bernoulli(0.2);
  // Sometimes one exchange at a time.
  if (random.Bernoulli(0.2)) job.mutable_scheduler()->set_credit_bytes(1);
  job.mutable_membership()->set_lease_seconds(absl::ToDoubleSeconds(kLease));
  job.mutable_membership()->set_heartbeat_seconds(0.1);
  const int64_t tables = Between(random, 1, num_workers > 8 ? 2 : 3);
  const int64_t layers = Between(random, 1, tables);
  for (int64_t i = 0; i < tables; ++i) {
    v1::TableSpec& table = scenario.tables.emplace_back();
    table.set_name(absl::StrCat("table", i));
    table.add_shape(slice_elements * static_cast<uint64_t>(Between(random, 1, 2)));
    table.set_layer(static_cast<uint32_t>(i % layers));
  }
  DrawTableStaleness(random, scenario.tables, *job.mutable_consistency());
  if (may_change) DrawSettings(random, scenario);
}

void DrawNetwork(Random& random, SimulatedNetwork::Options& network) {
  network.latency = Between(random, absl::Microseconds(50), absl::Milliseconds(1));
  network.max_jitter = Between(random, absl::ZeroDuration(), absl::Milliseconds(2));
  if (random.Bernoulli(0.5)) {
    network.slow = 0.1;
    network.max_slow = absl::Milliseconds(40);
  }
  if (random.Bernoulli(0.5)) network.drop = 0.05 * random.UniformFloat();
  if (random.Bernoulli(0.5)) network.duplicate = 0.15 * random.UniformFloat();
}

// Exponential. Sometimes one worker is much slower, and the others are far ahead for a long time.
void DrawComputeTime(Random& random, Scenario& scenario) {
  const absl::Duration mean = Between(random, absl::Milliseconds(1), absl::Milliseconds(20));
  const double slowness = random.Bernoulli(0.6) ? 2 + 18 * random.UniformFloat() : 1;
  scenario.compute_time = [mean, slowness](uint32_t worker, Random& draws) {
    return mean * -std::log(1.0 - draws.UniformFloat()) * (worker == 0 ? slowness : 1);
  };
}

Fault DrawFault(Random& random, const Scenario& scenario) {
  const v1::ClusterSpec& cluster = scenario.job.cluster();
  const auto any = [&random](uint32_t count) {
    return static_cast<uint32_t>(random.UniformInt(count));
  };
  Fault fault;
  const absl::Duration usual_time = absl::Milliseconds(15) * scenario.steps;
  fault.at =
      Between(random, absl::ZeroDuration(), random.Bernoulli(0.7) ? usual_time : 5 * usual_time);
  const double kind = random.UniformFloat();
  if (kind < 0.3) {
    fault.kind = Fault::Kind::kKillWorker;
    fault.process = any(cluster.num_workers());
    if (random.Bernoulli(0.8)) {
      fault.replaced_after = Between(random, absl::Milliseconds(1), absl::Milliseconds(700));
    }
  } else if (kind < 0.6) {
    // Longer than its lease: others consider it dead.
    fault.kind = Fault::Kind::kPauseWorker;
    fault.process = any(cluster.num_workers());
    fault.pause = Between(random, kLease, 3 * kLease);
    if (random.Bernoulli(0.8)) fault.replaced_after = kLease + fault.pause * random.UniformFloat();
  } else if (kind < 0.97) {
    fault.kind = random.Bernoulli(0.2)   ? Fault::Kind::kPauseCoordinator
                 : random.Bernoulli(0.5) ? Fault::Kind::kPauseServer
                                         : Fault::Kind::kPauseWorker;
    fault.process = any(fault.kind == Fault::Kind::kPauseServer ? cluster.num_servers()
                                                                : cluster.num_workers());
    fault.pause = Between(random, absl::Milliseconds(1), 0.5 * kLease);
  } else {
    fault.kind = Fault::Kind::kKillServer;
    fault.process = any(cluster.num_servers());
  }
  return fault;
}

absl::Duration UsualTime(const Scenario& scenario) {
  return absl::Milliseconds(15) * scenario.steps;
}

// Ends a life of the job: by a power cut, or by the death of a server.
void DrawEnd(Random& random, Scenario& life) {
  const absl::Duration at = Between(random, 0.3 * UsualTime(life), 1.5 * UsualTime(life));
  if (random.Bernoulli(0.6)) {
    life.power_cut = at;
    return;
  }
  Fault& death = life.faults.emplace_back();
  death.kind = Fault::Kind::kKillServer;
  death.process = static_cast<uint32_t>(random.UniformInt(life.job.cluster().num_servers()));
  death.at = at;
}

void DrawRequests(Random& random, Scenario& life) {
  life.checkpoint_requests.clear();
  for (int64_t i = Between(random, 0, 3); i > 0; --i) {
    life.checkpoint_requests.push_back(
        Between(random, absl::ZeroDuration(), 1.5 * UsualTime(life)));
  }
}

// Other servers, sometimes another consistency.
Scenario DrawNextLife(Random& random, const Scenario& first, uint64_t number) {
  Scenario life = first;
  life.next_lives.clear();
  life.seed = first.seed + (number << 40);
  life.faults.clear();
  life.power_cut = absl::InfiniteDuration();
  if (random.Bernoulli(0.5)) life.settings.clear();
  if (random.Bernoulli(0.5)) life.job.mutable_cluster()->set_num_servers(Size(random, 3, 8));
  if (!first.has_known_end && random.Bernoulli(0.2)) {
    life.job.mutable_consistency()->clear_table_staleness();
    life.job.mutable_consistency()->clear_staleness();
    DrawConsistency(random, *life.job.mutable_consistency());
  }
  if (!first.has_known_end && random.Bernoulli(0.4)) {
    life.faults.push_back(DrawFault(random, life));
  }
  DrawRequests(random, life);
  return life;
}

void DrawCheckpoints(Random& random, Scenario& scenario) {
  v1::CheckpointSpec& checkpoint = *scenario.job.mutable_checkpoint();
  checkpoint.set_dir("disk");
  checkpoint.set_keep(static_cast<uint32_t>(Between(random, 1, 2)));
  if (random.Bernoulli(0.6)) checkpoint.set_steps(static_cast<uint64_t>(Between(random, 1, 4)));
  scenario.disk.max_write_time = Between(random, absl::ZeroDuration(), absl::Milliseconds(5));
  if (random.Bernoulli(0.2)) scenario.disk.failures = 0.1;
  const bool is_bsp = scenario.job.consistency().mode() == v1::ConsistencySpec::BSP;
  if (is_bsp && scenario.settings.empty() && random.Bernoulli(0.4)) {
    scenario.has_known_end = true;
    scenario.has_recorded_values = false;
    scenario.job.mutable_optimizer()->set_type(v1::OptimizerSpec::MOMENTUM);
    scenario.job.mutable_optimizer()->set_momentum(0.5);
    scenario.faults.clear();
  }
  DrawRequests(random, scenario);
  // Not a draw of `random`: the others stay as they are without own state.
  if (scenario.seed % 2 == 0) scenario.own_arrays = 1 + scenario.seed % 4 / 2;
  DrawEnd(random, scenario);
  const int64_t lives = Between(random, 1, 3);
  for (int64_t i = 1; i <= lives; ++i) {
    scenario.next_lives.push_back(DrawNextLife(random, scenario, static_cast<uint64_t>(i)));
    if (i < lives) DrawEnd(random, scenario.next_lives.back());
  }
}

// In two of 5 schedules, workers that would be killed are asked to end. Not a draw of the others'
// random numbers: other schedules stay as they are.
void DrawLeaving(Scenario& life) {
  if (life.seed % 5 > 1) return;
  for (Fault& fault : life.faults) {
    if (fault.kind == Fault::Kind::kKillWorker) fault.kind = Fault::Kind::kAskWorkerToEnd;
  }
}

// The scenario and its next lives.
std::vector<Scenario*> LivesOf(Scenario& scenario) {
  std::vector<Scenario*> lives = {&scenario};
  for (Scenario& life : scenario.next_lives) lives.push_back(&life);
  return lives;
}

bool IsAlwaysBsp(const std::vector<Scenario*>& lives) {
  return std::all_of(lives.begin(), lives.end(), [](const Scenario* life) {
    return life->job.consistency().mode() == v1::ConsistencySpec::BSP && life->settings.empty();
  });
}

// A program under BSP with checkpoints.
bool HasRestoredProgram(uint64_t seed) { return seed % 15 == 0; }

// A program under BSP whose workers are lost and replaced.
bool HasReplacedProgram(uint64_t seed) { return seed % 15 == 7; }

void MakeBsp(Scenario& life) {
  v1::ConsistencySpec& consistency = *life.job.mutable_consistency();
  consistency.set_mode(v1::ConsistencySpec::BSP);
  consistency.clear_staleness();
  consistency.clear_table_staleness();
  life.settings.clear();
  life.pushes_ahead = false;  // A program's state is exact where each push is followed by a pull.
}

template <size_t kCount>
const char* AnyOf(Random& random, const char* const (&choices)[kCount]) {
  return choices[random.UniformInt(kCount)];
}

void SetCodecs(const char* push, const char* pull, v1::JobSpec& job) {
  job.mutable_codec()->set_push(push);
  job.mutable_codec()->set_pull(pull);
  job.mutable_codec()->set_min_bytes(0);
}

// Whether it can lose a worker.
bool IsDeath(const Fault& fault) {
  return fault.kind == Fault::Kind::kKillWorker || fault.kind == Fault::Kind::kAskWorkerToEnd ||
         (fault.kind == Fault::Kind::kPauseWorker && fault.pause >= kLease);
}

void RemoveDeaths(Scenario& life) {
  life.faults.erase(std::remove_if(life.faults.begin(), life.faults.end(), IsDeath),
                    life.faults.end());
}

// Tables with momentum of their own, learning rates that differ between workers, and initial values
// that are not 0: values then do not reveal updates.
void DrawKnownEnd(Random& random, Scenario& life, UserProgram& program) {
  life.has_known_end = true;
  life.has_recorded_values = false;
  program.has_rates_by_worker = true;
  program.initial_unit = 1000;
  for (v1::TableSpec& table : life.tables) {
    // The first one has the job's: a job's optimizer that no table has is refused.
    if (random.Bernoulli(0.5) || &table == &life.tables.front()) continue;
    v1::OptimizerSpec& own = *table.mutable_optimizer();
    own.set_type(v1::OptimizerSpec::MOMENTUM);
    own.set_learning_rate(0.5);
    own.set_momentum(0.25);
  }
}

// Worker 0 is lost before it has sent the initial values, or soon after. In half of the schedules
// no process can take its place.
void DrawEarlyLoss(Random& random, Scenario& life, UserProgram& program) {
  program.initial_delay = Between(random, absl::ZeroDuration(), absl::Milliseconds(100));
  program.worker_0_lives = Between(random, absl::ZeroDuration(), absl::Milliseconds(100));
  if (random.Bernoulli(0.5)) {
    program.worker_0_replaced_after =
        Between(random, absl::Milliseconds(1), absl::Milliseconds(700));
  } else {
    RemoveDeaths(life);
  }
}

void DrawProgram(Random& random, bool is_always_bsp, Scenario& scenario) {
  UserProgram program;
  program.seed = scenario.seed;
  if (random.Bernoulli(0.7)) program.idle = 0.5 * random.UniformFloat();
  if (random.Bernoulli(0.7)) program.without_gradient = 0.5 * random.UniformFloat();
  program.has_learning_rates = random.Bernoulli(0.7);
  program.first_rate = Step(Between(random, 0, 2));
  if (random.Bernoulli(0.5)) {
    program.initial_again_after = Between(random, absl::ZeroDuration(), UsualTime(scenario));
  }
  program.has_intruder = random.Bernoulli(0.5);
  for (v1::TableSpec& table : scenario.tables) {
    table.set_initial_from_worker(random.Bernoulli(0.7));
  }
  if (scenario.has_known_end || (is_always_bsp && random.Bernoulli(0.7))) {
    DrawKnownEnd(random, scenario, program);
  } else if (random.Bernoulli(0.4)) {
    DrawEarlyLoss(random, scenario, program);
  }
  for (Scenario* life : LivesOf(scenario)) {
    life->program = program;
    life->tables = scenario.tables;
    life->has_known_end = scenario.has_known_end;
    life->has_recorded_values = scenario.has_recorded_values;
    if (scenario.has_known_end) RemoveDeaths(*life);
    program.worker_0_lives = absl::InfiniteDuration();  // in later lives
  }
}

bool CanLoseWorker(const Scenario& life) {
  const bool dies_early =
      life.program.has_value() && life.program->worker_0_lives < absl::InfiniteDuration();
  return !life.faults.empty() || life.network.drop > 0 || dies_early;
}

// What the workers of a BSP job do together, workers with fewer batches, and early ends.
void DrawTogether(Random& random, absl::Span<Scenario* const> lives) {
  const Scenario& first = *lives.front();
  UserProgram program = *first.program;
  program.reduces = random.Bernoulli(0.8);
  const bool can_lose = std::any_of(lives.begin(), lives.end(),
                                    [](const Scenario* life) { return CanLoseWorker(*life); });
  const uint32_t workers = first.job.cluster().num_workers();
  if (random.Bernoulli(0.6)) {
    program.ends.assign(workers, first.steps);
    const uint64_t longest = random.UniformInt(workers);
    for (uint32_t worker = 0; worker < workers; ++worker) {
      // Nobody may end a job without a step.
      if (worker != longest) program.ends[worker] = Between(random, can_lose ? 1 : 0, first.steps);
    }
  }
  if (random.Bernoulli(0.6)) program.steps_left_out = Between(random, 1, 20);
  program.rank_0_stops = !can_lose && random.Bernoulli(0.5);
  if (random.Bernoulli(0.3)) {
    program.validation = Between(random, absl::ZeroDuration(), absl::Milliseconds(300));
  }
  if (program.local_steps.has_value()) program.ends.clear();  // Nobody joins with local steps.
  const bool restarts_leavers = random.Bernoulli(0.5);
  for (Scenario* life : lives) {
    life->program->steps_left_out = program.steps_left_out;
    life->program->rank_0_stops = program.rank_0_stops;
    life->program->reduces = program.reduces;
    life->program->ends = program.ends;
    life->program->validation = program.validation;
    life->restarts_leavers = restarts_leavers;
  }
}

// The programs run the optimizer of some tables. They pull after each push.
void DrawMeanTables(Random& random, absl::Span<Scenario* const> lives) {
  std::vector<v1::TableSpec> tables = lives.front()->tables;
  // One table has the job's optimizer: otherwise the job's is refused.
  const size_t dense = tables.size() - (tables.back().has_sparse() ? 1 : 0);
  v1::TableSpec& of_job = tables[random.UniformInt(dense)];
  of_job.clear_optimizer();
  for (v1::TableSpec& table : tables) {
    if (&table == &of_job || table.has_sparse() || random.Bernoulli(0.4)) continue;
    table.clear_optimizer();
    table.set_replies_mean(true);
  }
  for (Scenario* life : lives) {
    life->tables = tables;
    if (HasMeanTable(*life)) life->pushes_ahead = false;
  }
}

// One element of each slice of a push is not 0. So all codecs but bfloat16 bring kTestUpdate
// exactly, and leave no residual. Pulled values have several elements: bfloat16 and int8 change
// them. A topk of many elements sends the changed ones exactly, unless the worker is far behind.
void DrawCodecs(Random& random, Scenario& scenario) {
  const char* push =
      AnyOf(random, {"float32", "bfloat16", "int8", "topk:1", "topk:2", "topk:0.1:int8"});
  const char* pull =
      AnyOf(random, {"float32", "float32", "bfloat16", "int8", "topk:0.5", "topk:0.5", "topk:1"});
  // Final values are known only if all pushes are exact.
  if (scenario.has_known_end && push == absl::string_view("bfloat16")) push = "int8";
  const bool has_exact_pulls =
      pull == absl::string_view("float32") || absl::StartsWith(pull, "topk");
  const bool is_exact = push != absl::string_view("bfloat16") && has_exact_pulls;
  // Room for no worker's copy, for some, or for all.
  const uint64_t reply_state = random.UniformInt(4) == 0 ? random.UniformInt(2000) : 1 << 30;
  if (pull == absl::string_view("int8") && random.Bernoulli(0.5)) pull = kAutoCodec;
  if (push == absl::string_view("int8") && random.Bernoulli(0.5)) push = kAutoCodec;
  const int64_t auto_codecs_from = Between(random, 1, scenario.steps);
  const absl::Duration known_after = Between(random, absl::ZeroDuration(), absl::Seconds(1));
  for (Scenario* life : LivesOf(scenario)) {
    SetCodecs(push, pull, life->job);
    life->auto_codecs_known_after = known_after;
    life->job.mutable_codec()->set_reply_state_bytes(reply_state);
    life->auto_codecs_from = auto_codecs_from;
    if (!is_exact) life->has_recorded_values = false;
  }
}

void MakeDense(const Scenario& first, bool has_deaths, Scenario& life) {
  const bool is_bsp = first.job.consistency().mode() == v1::ConsistencySpec::BSP;
  // The mean of three workers then depends on the order of addition.
  life.gradient_unit = is_bsp ? 0.1f : 1.0f;
  life.has_recorded_values = false;
  life.has_known_end = false;
  life.job.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  for (v1::TableSpec& table : life.tables) table.clear_optimizer();
  if (life.program.has_value()) {
    // A residual goes with a push that has another rate than the one that left it.
    life.program->has_learning_rates = true;
    life.program->has_rates_by_worker = true;
    life.program->initial_unit = 0;
    if (!has_deaths) life.program->worker_0_lives = absl::InfiniteDuration();
  }
  *life.job.mutable_consistency() = first.job.consistency();
  *life.job.mutable_checkpoint() = first.job.checkpoint();
  life.settings.clear();
  if (!has_deaths) RemoveDeaths(life);
}

// Every push leaves a residual. A job that may be restored is BSP: then no step is done twice, and
// its end is known.
void DrawResiduals(Random& random, Scenario& scenario) {
  v1::ConsistencySpec& consistency = *scenario.job.mutable_consistency();
  if (!scenario.next_lives.empty()) {
    consistency.Clear();
    consistency.set_mode(v1::ConsistencySpec::BSP);
    scenario.pushes_ahead = false;
    scenario.job.mutable_checkpoint()->set_steps(static_cast<uint64_t>(Between(random, 1, 2)));
  }
  const char* push = AnyOf(random, {"topk:1", "topk:2", "topk:2:bfloat16", "bfloat16"});
  const char* pull = "float32";
  if (consistency.mode() == v1::ConsistencySpec::BSP) {
    push = AnyOf(random, {"topk:1", "topk:2", "topk:0.1", "topk:2:bfloat16", "topk:3:int8",
                          "bfloat16", "int8"});
    pull = AnyOf(random, {"float32", "bfloat16", "topk:1", "topk:2:bfloat16", "topk:0.1"});
    // Each version is pulled, so the differences are known.
    if (absl::StartsWith(pull, "topk")) scenario.pushes_ahead = false;
  } else {
    consistency.set_update_scale(v1::ConsistencySpec::SUM);
    // Workers then send their last residuals.
    scenario.job.mutable_checkpoint()->set_dir("disk");
  }
  // A slice that topk would not make smaller is sent as float32.
  constexpr int64_t kSmallest = 5;
  const int64_t slice = scenario.job.cluster().num_workers() * scenario.steps;
  if (slice < kSmallest) push = "topk:1";
  const bool has_dgc = consistency.mode() == v1::ConsistencySpec::BSP &&
                       absl::StartsWith(push, "topk") && random.Bernoulli(0.5);
  const int64_t warmup_steps = 5 * Between(random, 0, 2);
  const bool has_deaths = random.Bernoulli(0.2);
  if (push == absl::string_view("int8") && random.Bernoulli(0.5)) push = kAutoCodec;
  const int64_t auto_codecs_from = Between(random, 1, scenario.steps);
  for (Scenario* life : LivesOf(scenario)) {
    SetCodecs(push, pull, life->job);
    life->job.mutable_codec()->set_dgc(has_dgc);
    life->job.mutable_codec()->set_dgc_momentum(0.5);
    life->job.mutable_codec()->set_dgc_warmup_steps(static_cast<uint64_t>(warmup_steps));
    life->pushes_ahead = scenario.pushes_ahead;
    life->auto_codecs_from = auto_codecs_from;
    MakeDense(scenario, has_deaths, *life);
  }
}

// For all lives of the job.
size_t CountFaults(const Scenario& scenario) {
  size_t count = scenario.faults.size();
  for (const Scenario& life : scenario.next_lives) count += life.faults.size();
  return count;
}

bool MayLoseRegistration(uint64_t seed) { return seed % 13 == 6; }

// The successor comes when the lease of the first worker ends.
void DrawLostRegistration(Random& random, Scenario& life) {
  LostRegistration& lost = life.lost_registration.emplace();
  lost.process = static_cast<uint32_t>(random.UniformInt(life.job.cluster().num_workers()));
  lost.replaced_after = Between(random, 0.7 * kLease, 1.1 * kLease);
  lost.successor_lives = Between(random, absl::ZeroDuration(), absl::Milliseconds(100));
  // In a job that stays it may do its steps, and leave.
  if (life.job.stay() && random.Bernoulli(0.5)) lost.successor_lives = absl::InfiniteDuration();
  lost.is_successor_killed = random.Bernoulli(0.5);
  const absl::Duration free_after = lost.successor_lives == absl::InfiniteDuration()
                                        ? absl::ZeroDuration()
                                    : lost.is_successor_killed ? lost.successor_lives + 0.8 * kLease
                                                               : lost.successor_lives;
  lost.returns_after = free_after + Between(random, absl::ZeroDuration(), 0.4 * kLease);
}

// Schedules with many restores.
bool HasShortLives(uint64_t seed) { return seed % 11 == 2 || seed % 11 == 9; }

// Several lives that end soon: some in a round, some between two rounds, when all workers have
// left, maybe at different steps.
void DrawShortLives(Random& random, Scenario& scenario) {
  scenario.faults.clear();
  scenario.job.mutable_checkpoint()->set_steps(1);
  const auto lives = static_cast<size_t>(Between(random, 3, 6));
  scenario.next_lives.clear();
  while (scenario.next_lives.size() + 1 < lives) {
    scenario.next_lives.push_back(DrawNextLife(random, scenario, scenario.next_lives.size() + 1));
  }
  const uint32_t workers = scenario.job.cluster().num_workers();
  const bool is_async = random.Bernoulli(0.8);
  for (Scenario* life : LivesOf(scenario)) {
    if (is_async) {
      life->job.mutable_consistency()->Clear();
      life->job.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
    }
    life->power_cut = Between(random, absl::ZeroDuration(), absl::Milliseconds(60));
    life->cut_after_ends = static_cast<uint32_t>(Between(random, 0, workers));
  }
  scenario.next_lives.back().power_cut = absl::InfiniteDuration();
}

// A worker stops while it registers, and goes on when another one has taken its place. That one may
// have done its steps, so that the place is free again.
void DrawLateRegistration(Random& random, Scenario& life) {
  life.network.drop = 0.3;
  Fault& fault = life.faults.emplace_back();
  fault.kind = Fault::Kind::kPauseWorker;
  fault.process = static_cast<uint32_t>(random.UniformInt(life.job.cluster().num_workers()));
  const absl::Duration way = life.network.latency + 0.5 * life.network.max_jitter;
  fault.at = Between(random, 3 * way, 3 * way + absl::Milliseconds(50));
  fault.pause = Between(random, 1.5 * kLease, 4 * kLease);
  fault.replaced_after = Between(random, kLease, 1.5 * kLease);
}

// The job stays, and workers come several times. Faults may befall any of them.
void DrawStay(Random& random, Scenario& scenario) {
  if (HasShortLives(scenario.seed)) DrawShortLives(random, scenario);
  const int64_t round_steps = std::min<int64_t>(scenario.steps, 4);
  const int64_t rounds = Between(random, 2, 3);
  const std::vector<Scenario*> lives = LivesOf(scenario);
  // A worker that comes when the others have left does a round alone.
  const size_t lost_registrations = MayLoseRegistration(scenario.seed) ? lives.size() : 0;
  const int64_t processes =
      scenario.job.cluster().num_workers() * rounds * static_cast<int64_t>(lives.size()) +
      static_cast<int64_t>(CountFaults(scenario) + lives.size() + lost_registrations);
  const int64_t steps = round_steps * processes;
  const uint64_t elements = scenario.job.cluster().num_workers() * static_cast<uint64_t>(steps);
  for (Scenario* life : lives) {
    life->job.set_stay(true);
    life->round_steps = round_steps;
    life->rounds = rounds;
    life->steps = steps;
    life->pushes_ahead = false;
    life->job.mutable_scheduler()->set_slice_bytes(elements * sizeof(float));
    for (v1::TableSpec& table : life->tables) table.set_shape(0, elements);
    for (Fault& fault : life->faults) {
      if (random.Bernoulli(0.5)) fault.at *= rounds;
    }
    if (!HasShortLives(scenario.seed)) DrawLateRegistration(random, *life);
  }
}

// A row for each worker in each shard, as long as the steps: so a slice's values have one element
// for each update, as those of dense slices. In a job with has_known_end: those of known_rows.h.
void AddSparseTable(Scenario& scenario) {
  v1::TableSpec table;
  table.set_name("rows");
  table.mutable_sparse()->set_dim(static_cast<uint32_t>(scenario.steps));
  if (scenario.has_known_end) {
    table.mutable_sparse()->set_dim(2);
    table.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
    table.mutable_optimizer()->set_learning_rate(0.5);
  }
  for (const v1::TableSpec& other : scenario.tables) {
    table.set_layer(std::max(table.layer(), other.layer() + 1));
  }
  scenario.tables.push_back(std::move(table));
  // Pushes without their pulls are tried with dense tables.
  scenario.pushes_ahead = false;
}

// Half of the BSP jobs that may be restored must end with the bits of an undisturbed job. Each has
// a life that ends with the loss of a worker.
void DrawSameBits(Random& random, std::vector<Scenario*> lives) {
  Scenario& first = *lives.front();
  if (!first.is_always_bsp || lives.size() == 1 || first.job.stay() || first.program.has_value() ||
      random.Bernoulli(0.5)) {
    return;
  }
  for (Scenario* life : lives) life->job.mutable_membership()->set_allow_other_bits(false);
  Scenario& life = *lives[random.UniformInt(lives.size() - 1)];
  life.faults.clear();
  Fault& loss = life.faults.emplace_back();
  loss.kind = Fault::Kind::kKillWorker;
  loss.process = static_cast<uint32_t>(random.UniformInt(first.job.cluster().num_workers()));
  loss.at = Between(random, absl::ZeroDuration(), UsualTime(first));
  // The others would have some time to go on.
  life.power_cut = loss.at + kLease + Between(random, absl::Milliseconds(10), absl::Seconds(1));
}

// Whether another process could do a worker's step again.
bool CanHoldPlaces(const Scenario& scenario) {
  return scenario.is_always_bsp && !scenario.job.stay() && !scenario.job.has_codec() &&
         scenario.own_arrays == 0 && !HasMeanTable(scenario) && !HasLocalSteps(scenario);
}

// Workers are lost at any time, also two at once, and one that has come in another's place. Nobody
// else is silent for a lease.
void DrawReplacements(Random& random, Scenario& life) {
  const uint32_t workers = life.job.cluster().num_workers();
  life.replaces_all = true;
  life.network.drop = 0;
  life.job.mutable_membership()->set_replace_seconds(100);
  life.job.mutable_membership()->set_allow_other_bits(false);
  if (life.program.has_value()) life.program->worker_0_lives = absl::InfiniteDuration();
  const auto is_of_server = [](const Fault& fault) {
    return fault.kind == Fault::Kind::kPauseServer || fault.kind == Fault::Kind::kKillServer;
  };
  life.faults.erase(std::remove_if(life.faults.begin(), life.faults.end(),
                                   [&](const Fault& fault) { return !is_of_server(fault); }),
                    life.faults.end());
  std::set<uint32_t> lost;
  for (int64_t i = Between(random, 1, 3); i > 0; --i) {
    Fault fault;
    // The last process is one that comes in another's place.
    fault.process = static_cast<uint32_t>(random.UniformInt(workers + (lost.empty() ? 0 : 1)));
    const double kind = random.UniformFloat();
    fault.kind = kind < 0.6   ? Fault::Kind::kKillWorker
                 : kind < 0.8 ? Fault::Kind::kPauseWorker
                              : Fault::Kind::kAskWorkerToEnd;
    fault.at = Between(random, absl::ZeroDuration(), UsualTime(life));
    if (fault.process == workers) fault.at += kLease;
    if (!lost.empty() && random.Bernoulli(0.3)) fault.at = life.faults.back().at;
    fault.replaced_after = Between(random, absl::Milliseconds(1), absl::Milliseconds(700));
    if (fault.kind == Fault::Kind::kPauseWorker) {
      fault.pause = Between(random, 1.5 * kLease, 3 * kLease);
      fault.replaced_after = kLease + fault.pause * random.UniformFloat();
    }
    if (lost.insert(fault.process).second) life.faults.push_back(fault);
  }
}

// A step's pushes take most of its time, one after the other: a worker is lost between two of them.
// Those of layers that are not used wait while the next step begins.
void DrawSlowPushes(Random& random, Scenario& life) {
  life.program->idle = 0.5;
  life.job.mutable_scheduler()->set_credit_bytes(1);
  life.network.latency = Between(random, absl::Milliseconds(1), absl::Milliseconds(3));
  life.compute_time = [](uint32_t /*worker*/, Random& draws) {
    return absl::Milliseconds(1) * draws.UniformFloat();
  };
}

// Places of lost workers are held in jobs where that is possible: for a short time, or long enough
// for all.
void DrawHeldPlaces(Random& random, absl::Span<Scenario* const> lives) {
  const bool replaces_all = random.Bernoulli(0.7);
  // Rows of the first layer are sent before those of the others.
  const bool has_rows_first = HasSparseTable(*lives.front()) && random.Bernoulli(0.5);
  for (Scenario* life : lives) {
    if (has_rows_first) life->tables.back().set_layer(0);
    if (life->program.has_value()) DrawSlowPushes(random, *life);
    for (v1::TableSpec& table : life->tables) {
      if (life->program.has_value() && !table.has_sparse()) table.set_shape(0, 3 * table.shape(0));
    }
    if (replaces_all) {
      DrawReplacements(random, *life);
    } else {
      life->job.mutable_membership()->set_replace_seconds(
          absl::ToDoubleSeconds(Between(random, absl::Milliseconds(1), absl::Seconds(1))));
    }
  }
}

std::string DescribeCodecs(const Scenario& scenario) {
  if (!scenario.job.has_codec()) return "";
  const v1::CodecSpec& codec = scenario.job.codec();
  return absl::StrCat(", pushes as ", codec.push(), scenario.gradient_unit == 0 ? "" : " (dense)",
                      ", pulls as ", codec.pull());
}

}  // namespace

Scenario DrawScenario(uint64_t seed) {
  Random random(seed, /*stream=*/0);
  Scenario scenario;
  scenario.seed = seed;
  DrawJob(random, scenario);
  DrawNetwork(random, scenario.network);
  DrawComputeTime(random, scenario);
  const int64_t faults = random.Bernoulli(0.3) ? 0 : Between(random, 1, 3);
  for (int64_t i = 0; i < faults; ++i) scenario.faults.push_back(DrawFault(random, scenario));
  DrawUpdateScale(random, *scenario.job.mutable_consistency());
  Random checkpoints(seed, /*stream=*/3);
  if (seed % 3 == 0 || HasShortLives(seed)) DrawCheckpoints(checkpoints, scenario);
  Random programs(seed, /*stream=*/7);
  const bool has_bsp_program = HasRestoredProgram(seed) || HasReplacedProgram(seed);
  if (has_bsp_program) {
    for (Scenario* life : LivesOf(scenario)) MakeBsp(*life);
  }
  if (seed % 7 == 6 || has_bsp_program)
    DrawProgram(programs, IsAlwaysBsp(LivesOf(scenario)), scenario);
  Random codecs(seed, /*stream=*/5);
  if (seed % 8 == 0 || seed % 16 == 9) DrawCodecs(codecs, scenario);
  if (seed % 16 == 4 || seed % 16 == 5) DrawResiduals(codecs, scenario);
  Random rounds(seed, /*stream=*/18);
  // Restored programs with several tables may run an optimizer of their own.
  const double share = !HasRestoredProgram(seed) ? 0.25 : scenario.tables.size() == 1 ? 0.8 : 0.15;
  if (HasScriptedPrograms(scenario) && !scenario.job.has_codec() && !HasReplacedProgram(seed) &&
      rounds.Bernoulli(share)) {
    DrawLocalSteps(rounds, IsAlwaysBsp(LivesOf(scenario)), LivesOf(scenario));
  }
  Random stay(seed, /*stream=*/6);
  const bool is_small = scenario.job.cluster().num_workers() <= 4;
  const bool is_plain =
      !scenario.job.has_codec() && !scenario.has_known_end && !scenario.program.has_value();
  if ((seed % 11 == 6 || HasShortLives(seed)) && is_small && is_plain) {
    DrawStay(stay, scenario);
  }
  Random sparse(seed, /*stream=*/8);
  const std::vector<Scenario*> lives = LivesOf(scenario);
  const bool may_have_rows = scenario.program.has_value() && scenario.has_test_values &&
                             !scenario.job.has_codec() && scenario.own_arrays == 0 &&
                             !HasLocalSteps(scenario) &&
                             scenario.program->initial_delay == absl::ZeroDuration();
  if (may_have_rows && sparse.Bernoulli(0.8)) {
    for (Scenario* life : lives) AddSparseTable(*life);
  }
  for (Scenario* life : lives) life->is_always_bsp = IsAlwaysBsp(lives);
  Random same_bits(seed, /*stream=*/9);
  DrawSameBits(same_bits, lives);
  for (Scenario* life : lives) DrawLeaving(*life);
  Random together(seed, /*stream=*/11);
  if (scenario.program.has_value() && scenario.is_always_bsp && scenario.own_arrays == 0) {
    DrawTogether(together, lives);
  }
  Random means(seed, /*stream=*/12);
  if (scenario.has_known_end && scenario.is_always_bsp && HasScriptedPrograms(scenario) &&
      !scenario.job.has_codec()) {
    DrawMeanTables(means, lives);
  }
  for (Scenario* life : lives) {
    if (HasScriptedPrograms(*life)) life->job.mutable_model()->set_type(v1::ModelSpec::PROGRAM);
  }
  Random held(seed, /*stream=*/13);
  for (Scenario* life : lives) life->job.mutable_membership()->set_replace_seconds(0);
  if (CanHoldPlaces(scenario) && (HasReplacedProgram(seed) || held.Bernoulli(0.7))) {
    DrawHeldPlaces(held, lives);
  }
  Random lost(seed, /*stream=*/10);
  const bool can_lose_worker =
      scenario.job.cluster().num_workers() > 1 && scenario.job.membership().allow_other_bits();
  if (MayLoseRegistration(seed) && is_plain && !scenario.replaces_all &&
      (can_lose_worker || scenario.job.stay())) {
    for (Scenario* life : lives) DrawLostRegistration(lost, *life);
  }
  return scenario;
}

Scenario DrawCopiedScenario(uint64_t seed) {
  Scenario scenario = DrawScenario(seed);
  Random random(seed, /*stream=*/14);
  Random lost(seed, /*stream=*/15);
  for (Scenario* life : LivesOf(scenario)) {
    v1::ClusterSpec& cluster = *life->job.mutable_cluster();
    cluster.set_replicas(2);
    cluster.set_num_servers(std::max<uint32_t>(cluster.num_servers(), 2));
    const int64_t cuts = random.Bernoulli(0.5) ? 0 : Between(random, 1, 4);
    const uint32_t processes = cluster.num_servers() + cluster.num_workers();
    for (int64_t i = 0; i < cuts; ++i) {
      LinkCut& cut = life->cuts.emplace_back();
      cut.from = static_cast<uint32_t>(random.UniformInt(cluster.num_servers()));
      cut.to = static_cast<uint32_t>(
          random.UniformInt(random.Bernoulli(0.7) ? cluster.num_servers() : processes));
      if (random.Bernoulli(0.5)) std::swap(cut.from, cut.to);
      cut.at = Between(random, absl::ZeroDuration(), 1.5 * UsualTime(*life));
      cut.lasts = Between(random, absl::Milliseconds(1), absl::Milliseconds(400));
    }
    const int64_t losses = lost.Bernoulli(0.5) ? 0 : Between(lost, 1, 4);
    for (int64_t i = 0; i < losses; ++i) {
      life->copy_losses.push_back(Between(lost, absl::ZeroDuration(), UsualTime(*life)));
    }
    std::sort(life->copy_losses.begin(), life->copy_losses.end());
  }
  return scenario;
}

namespace {

void DrawServerLosses(Random& random, Scenario& life) {
  const uint32_t servers = life.job.cluster().num_servers();
  // Lives end otherwise.
  for (Fault& fault : life.faults) {
    if (fault.kind != Fault::Kind::kKillServer) continue;
    fault.kind = Fault::Kind::kPauseServer;
    fault.pause = Between(random, absl::Milliseconds(1), 0.5 * kLease);
  }
  const bool waits_for_copies = random.Bernoulli(0.8);
  // Half of the losses come in the middle of a checkpoint or of a change of the consistency.
  std::vector<absl::Duration> middles = life.checkpoint_requests;
  for (const ConsistencySetting& setting : life.settings) middles.push_back(setting.at);
  for (int64_t i = Between(random, 1, 4); i > 0; --i) {
    ServerLoss& loss = life.server_losses.emplace_back();
    const double kind = random.UniformFloat();
    loss.kind = kind < 0.5   ? ServerLoss::Kind::kKill
                : kind < 0.7 ? ServerLoss::Kind::kPause
                : kind < 0.8 ? ServerLoss::Kind::kUnheard
                             : ServerLoss::Kind::kAskToEnd;
    loss.server = static_cast<uint32_t>(random.UniformInt(servers));
    loss.at = Between(random, absl::ZeroDuration(), UsualTime(life));
    if (!middles.empty() && random.Bernoulli(0.5)) {
      loss.at = middles[random.UniformInt(middles.size())] +
                Between(random, absl::ZeroDuration(), absl::Milliseconds(10));
    }
    loss.waits_for_copies = waits_for_copies;
    loss.is_noticed = random.Bernoulli(0.7);
    loss.pause = Between(random, 1.1 * kLease, 3 * kLease);
    if (random.Bernoulli(0.8)) {
      loss.returns_after = Between(random, absl::Milliseconds(1), absl::Milliseconds(700));
      // Only a process that has ended gives its address to another one.
      loss.has_same_address = loss.kind == ServerLoss::Kind::kKill && random.Bernoulli(0.5);
    }
  }
}

}  // namespace

Scenario DrawFailOverScenario(uint64_t seed) {
  Scenario scenario = DrawCopiedScenario(seed);
  Random random(seed, /*stream=*/16);
  for (Scenario* life : LivesOf(scenario)) {
    DrawServerLosses(random, *life);
    const bool has_end = life->power_cut < absl::InfiniteDuration() || life->cut_after_ends > 0;
    if (life != LivesOf(scenario).back() && !has_end) {
      life->power_cut = Between(random, 0.3 * UsualTime(*life), 1.5 * UsualTime(*life));
    }
  }
  return scenario;
}

bool HasScriptedPrograms(const Scenario& scenario) {
  return scenario.program.has_value() && scenario.own_arrays == 0 &&
         scenario.program->initial_delay == absl::ZeroDuration();
}

bool HasMeanTable(const Scenario& scenario) {
  return std::any_of(scenario.tables.begin(), scenario.tables.end(),
                     [](const v1::TableSpec& table) { return table.replies_mean(); });
}

bool HasSparseTable(const Scenario& scenario) {
  return !scenario.tables.empty() && scenario.tables.back().has_sparse();
}

std::vector<std::vector<uint64_t>> SparseKeysByShard(const v1::JobSpec& job) {
  std::vector<std::vector<uint64_t>> keys(job.cluster().shard_count());
  size_t full = 0;
  for (uint64_t key = 0; full < keys.size(); ++key) {
    const ShardId shard = ShardOfKey(key, job.cluster().shard_count());
    std::vector<uint64_t>& of_shard = keys[shard.value()];
    if (of_shard.size() == job.cluster().num_workers()) continue;
    of_shard.push_back(key);
    if (of_shard.size() == job.cluster().num_workers()) ++full;
  }
  return keys;
}

std::string Describe(const Scenario& scenario) {
  const v1::ConsistencySpec& consistency = scenario.job.consistency();
  std::string mode = v1::ConsistencySpec::Mode_Name(consistency.mode());
  absl::AsciiStrToLower(&mode);
  if (consistency.mode() == v1::ConsistencySpec::SSP) {
    absl::StrAppend(&mode, "(", consistency.staleness(), ")");
  }
  return absl::StrCat(
      mode, ", ", scenario.job.cluster().num_workers(), " workers, ",
      scenario.job.cluster().num_servers(), " servers, ", scenario.steps, " steps, ",
      scenario.job.cluster().replicas() > 1
          ? absl::StrCat("two copies, ", scenario.copy_losses.size(), " lost, ",
                         scenario.cuts.size(), " cuts, ", scenario.server_losses.size(),
                         " servers lost, ")
          : "",
      scenario.keeps_state
          ? absl::StrCat(scenario.coordinator_losses.size(), " coordinators lost, ")
          : "",
      scenario.faults.size(), " faults, ", scenario.settings.size(), " settings, ",
      1 + scenario.next_lives.size(), " lives",
      scenario.job.membership().allow_other_bits() ? "" : ", same bits",
      scenario.lost_registration.has_value() ? ", a lost registration" : "",
      scenario.replaces_all                             ? ", replaces all"
      : scenario.job.membership().replace_seconds() > 0 ? ", holds places"
                                                        : "",
      scenario.job.stay() ? absl::StrCat(", ", scenario.rounds, " rounds") : "",
      scenario.program.has_value() ? ", a program" : "",
      HasLocalSteps(scenario) ? ", local steps" : "",
      scenario.program.has_value() && scenario.program->has_two_processes ? ", in two processes"
                                                                          : "",
      scenario.program.has_value() && scenario.program->reduces ? ", reduces" : "",
      scenario.program.has_value() && !scenario.program->ends.empty() ? ", joins" : "",
      scenario.program.has_value() && scenario.program->steps_left_out > 0 ? ", ends early" : "",
      HasSparseTable(scenario) ? ", sparse rows" : "", HasMeanTable(scenario) ? ", means" : "",
      DescribeCodecs(scenario));
}

}  // namespace capstan
