#include "tests/simulation/run_scenario.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/history/check/check_history.h"
#include "common/history/history.h"
#include "common/history/history_file.h"
#include "tests/simulation/own_state_check.h"
#include "tests/simulation/residual_check.h"
#include "tests/simulation/restored_updates.h"
#include "tests/simulation/round_check.h"
#include "tests/simulation/simulated_disk.h"
#include "worker/models/training/evaluate.h"

namespace capstan {
namespace {

// Until a member that has heard of another coordinator gets through to it.
constexpr absl::Duration kLongestReturn = absl::Milliseconds(300);

// Until the term of a coordinator has begun, after the start of its process.
constexpr absl::Duration kLongestOpen = absl::Milliseconds(300);

// Whether a member can be silent for its lease. It can if it dies or is asked to end, or if the
// network drops messages, maybe several heartbeats in a row. It also can if the pauses of the
// member and of the coordinator add up to a lease, less the time between two heartbeats and the
// time to bring one or its repeat. The coordinator hears nothing during its own pause.
bool CanSilence(const Scenario& scenario, Fault::Kind pause,
                std::initializer_list<Fault::Kind> ends, uint32_t process) {
  if (scenario.network.drop > 0) return true;
  // A member comes to another coordinator after a while.
  absl::Duration silence = scenario.coordinator_losses.empty()
                               ? absl::ZeroDuration()
                               : scenario.move_time + kLongestReturn;
  for (const CoordinatorLoss& loss : scenario.coordinator_losses) {
    if (loss.kind != CoordinatorLoss::Kind::kPause) continue;
    silence += std::min(loss.pause, loss.returns_after + kLongestOpen);
  }
  for (const Fault& fault : scenario.faults) {
    const bool is_of_process = fault.process == process;
    const bool is_end = std::find(ends.begin(), ends.end(), fault.kind) != ends.end();
    if (is_end && is_of_process) return true;
    if (fault.kind == Fault::Kind::kPauseCoordinator || (fault.kind == pause && is_of_process)) {
      silence += fault.pause;
    }
  }
  const v1::MembershipSpec& membership = scenario.job.membership();
  return silence >= absl::Seconds(membership.lease_seconds() - 2 * membership.heartbeat_seconds());
}

bool CanSilenceServer(const Scenario& scenario, uint32_t process) {
  return CanSilence(scenario, Fault::Kind::kPauseServer, {Fault::Kind::kKillServer}, process);
}

// Counts workers from the start of the job only. Their replacements suffer no faults.
uint32_t WorkersThatCanBeSilenced(const Scenario& scenario) {
  // Any process may be worker 0.
  if (scenario.program.has_value() && scenario.program->worker_0_lives < absl::InfiniteDuration()) {
    return scenario.job.cluster().num_workers();
  }
  uint32_t count = 0;
  for (uint32_t process = 0; process < scenario.job.cluster().num_workers(); ++process) {
    const auto& lost = scenario.lost_registration;
    const bool is_lost = lost.has_value() && lost->process == process;
    count +=
        is_lost || CanSilence(scenario, Fault::Kind::kPauseWorker,
                              {Fault::Kind::kKillWorker, Fault::Kind::kAskWorkerToEnd}, process);
  }
  return count;
}

constexpr char kInitialLost[] = "worker 0 was lost before it had sent the initial values of";

bool IsInitialLost(const SimulationResult& result) {
  return result.outcome.has_value() &&
         absl::StrContains(result.outcome->status.message(), kInitialLost);
}

constexpr char kNoCopy[] = "no whole copy is left";

bool IsWithoutCopy(const absl::Status& end) { return absl::StrContains(end.message(), kNoCopy); }

// Whether a server can be lost while the copies of its shards are not whole.
bool CanLackCopies(const Scenario& scenario) {
  if (!scenario.copy_losses.empty()) return true;
  for (const ServerLoss& loss : scenario.server_losses) {
    if (!loss.waits_for_copies) return true;
  }
  for (uint32_t process = 0; process < scenario.job.cluster().num_servers(); ++process) {
    if (CanSilenceServer(scenario, process)) return true;
  }
  return false;
}

// A server with copies that is lost while the job trains may be lost before that for a coordinator
// that goes on with an older state.
bool IsLostBeforeTraining(const Scenario& scenario, absl::string_view reason) {
  return !scenario.coordinator_losses.empty() && !scenario.server_losses.empty() &&
         scenario.job.cluster().replicas() > 1 && absl::StrContains(reason, "its shards are lost");
}

bool MayFailFor(const Scenario& scenario, absl::string_view reason) {
  if (IsLostBeforeTraining(scenario, reason)) return true;
  if (absl::StrContains(reason, kNoCopy)) return CanLackCopies(scenario);
  if (scenario.replaces_all && absl::StrContains(reason, "(--allow_other_bits)")) return false;
  if (absl::StrContains(reason, kInitialLost)) {
    return scenario.program.has_value() && WorkersThatCanBeSilenced(scenario) > 0;
  }
  // A coordinator that goes on doubts those who do not come.
  const bool is_doubted = !scenario.coordinator_losses.empty() &&
                          (absl::StrContains(reason, "has ended, or its connection has broken") ||
                           absl::StrContains(reason, "because its connection had broken"));
  if (!is_doubted && !absl::StrContains(reason, "has been silent for") &&
      !absl::StrContains(reason, "was asked to end, and has left")) {
    return false;
  }
  if (absl::StrContains(reason, "the programs run the optimizer")) {
    return HasMeanTable(scenario) && WorkersThatCanBeSilenced(scenario) > 0;
  }
  if (absl::StrContains(reason, "(--allow_other_bits)")) {
    return !scenario.job.membership().allow_other_bits() && WorkersThatCanBeSilenced(scenario) > 0;
  }
  if (absl::StrContains(reason, "last live worker")) {
    return WorkersThatCanBeSilenced(scenario) == scenario.job.cluster().num_workers();
  }
  for (uint32_t process = 0; process < scenario.job.cluster().num_servers(); ++process) {
    // The server's port is `process` + 1.
    if (absl::StrContains(reason, absl::StrCat("(simulated:", process + 1, ")"))) {
      return CanSilenceServer(scenario, process);
    }
  }
  return absl::StrContains(reason, "before training began") &&
         WorkersThatCanBeSilenced(scenario) > 0;
}

// A job that stays has ended as it should.
bool IsStopped(const JobOutcome& outcome) { return outcome.status.message() == kStopped; }

bool CanLackMember(const Scenario& scenario) {
  return std::any_of(scenario.faults.begin(), scenario.faults.end(), [](const Fault& fault) {
    const bool is_kill = fault.kind == Fault::Kind::kKillServer ||
                         fault.kind == Fault::Kind::kKillWorker ||
                         fault.kind == Fault::Kind::kAskWorkerToEnd;
    return is_kill && fault.replaced_after == absl::ZeroDuration();
  });
}

bool HaveAllLived(const std::vector<v1::HistoryRecord>& records) {
  return std::all_of(records.begin(), records.end(), [](const v1::HistoryRecord& record) {
    return !record.has_membership() || record.membership().event() == v1::MembershipRecord::ENTERED;
  });
}

// The optimizer of a step of the table, with the rates of the smallest worker with a gradient.
// None: nobody has one.
std::optional<v1::OptimizerSpec> OptimizerOfStep(const Scenario& scenario, TableId table,
                                                 Step step) {
  const v1::TableSpec& spec = scenario.tables[table.value()];
  v1::OptimizerSpec optimizer = spec.has_optimizer() ? spec.optimizer() : scenario.job.optimizer();
  const bool has_momentum = optimizer.type() == v1::OptimizerSpec::MOMENTUM;
  if (!has_momentum) optimizer.set_momentum(0);
  for (uint32_t worker = 0; worker < scenario.job.cluster().num_workers(); ++worker) {
    const WorkerId id(worker);
    if (!HasGradient(scenario, id, step, table)) continue;
    if (spec.replies_mean()) {
      optimizer.set_learning_rate(1);
      optimizer.set_momentum(0);
      return optimizer;
    }
    if (!scenario.program.has_value()) return optimizer;
    const UserProgram& program = *scenario.program;
    optimizer.set_learning_rate(
        program.LearningRate(id, step, table).value_or(optimizer.learning_rate()));
    if (!has_momentum) return optimizer;
    optimizer.set_momentum(program.Momentum(id, step, table).value_or(optimizer.momentum()));
    return optimizer;
  }
  return std::nullopt;
}

// The slice after SGD or momentum, applied to the mean of each step in float32 as the servers
// compute.
std::vector<float> KnownEndOf(const Scenario& scenario, SliceKey key) {
  const v1::TableSpec& spec = scenario.tables[key.table.value()];
  const uint32_t workers = scenario.job.cluster().num_workers();
  std::vector<float> values(workers * static_cast<size_t>(scenario.steps));
  for (size_t i = 0; i < values.size() && spec.initial_from_worker(); ++i) {
    values[i] = scenario.program->InitialValue(key, i);
  }
  std::vector<float> velocity(values.size());
  for (Step step; step < Step(scenario.steps); step = step + 1) {
    const auto optimizer = OptimizerOfStep(scenario, key.table, step);
    if (!optimizer.has_value()) continue;
    for (float& element : velocity) element *= static_cast<float>(optimizer->momentum());
    for (uint32_t worker = 0; worker < workers; ++worker) {
      if (!HasGradient(scenario, WorkerId(worker), step, key.table)) continue;
      velocity[TestElement(WorkerId(worker), step, scenario.steps)] +=
          -kTestUpdate / static_cast<float>(workers);
    }
    const auto rate = static_cast<float>(optimizer->learning_rate());
    for (size_t i = 0; i < values.size(); ++i) values[i] -= rate * velocity[i];
  }
  return values;
}

uint64_t HashOfKnownEnd(const Scenario& scenario) {
  std::vector<std::vector<float>> tables;
  for (uint32_t table = 0; table < scenario.tables.size(); ++table) {
    if (scenario.tables[table].has_sparse()) continue;
    std::vector<float>& values = tables.emplace_back();
    for (uint32_t slice = 0; values.size() < scenario.tables[table].shape(0); ++slice) {
      const std::vector<float> end = KnownEndOf(scenario, {TableId(table), SliceIndex(slice)});
      values.insert(values.end(), end.begin(), end.end());
    }
  }
  const std::vector<absl::Span<const float>> spans(tables.begin(), tables.end());
  return HashParameters(spans);
}

// What is wrong with the final parameters; empty: nothing, or nobody knows.
std::string WrongValues(const Scenario& scenario, const SimulationResult& result) {
  const uint64_t expected = HashOfKnownEnd(scenario);
  const uint64_t got = result.outcome->result.parameters_xxh3();
  if (got != expected) {
    return absl::StrCat("final values: expected parameters with the XXH3-64 ", absl::Hex(expected),
                        ", got ", absl::Hex(got));
  }
  return HasSparseTable(scenario) && !result.has_final_rows
             ? "final values: expected a pull of the rows of the sparse table"
             : "";
}

// Simulates one life, and adds to the verdict of those before.
void RunLife(const Scenario& life, SimulatedDisk& disk, OwnStateCheck& own_states,
             RoundCheck& rounds, ScenarioVerdict& verdict) {
  const std::string restored = disk.Newest();
  own_states.BeginLife(life, restored.empty() ? nullptr : &disk.Get(restored));
  if (!restored.empty()) {
    ++verdict.restores;
    const bool can_check = verdict.have_all_lived && life.has_recorded_values;
    const std::string missing = can_check ? MissingUpdates(disk.Get(restored), life) : "";
    if (!missing.empty())
      verdict.violation = absl::StrCat("nothing lost in a checkpoint: ", missing);
    if (!missing.empty()) return;
  }
  rounds.BeginLife(life);
  SimulatedCluster cluster(life, &disk, &rounds);
  const SimulationResult result = cluster.Run();
  HistoryAssembler assembler;
  absl::Status status = assembler.AddFile(result.records);
  CHECK(status.ok()) << "seed " << life.seed << ": " << status;
  const HistoryVerdict history = CheckHistory(assembler.Finish().value()).value();
  const bool have_all_lived =
      verdict.have_all_lived && (life.replaces_all || HaveAllLived(result.records));
  // A job with the bits of an undisturbed one never goes on from what a lost worker is missing in.
  if (life.job.membership().allow_other_bits()) verdict.have_all_lived = have_all_lived;
  verdict.is_done =
      result.outcome.has_value() && (result.outcome->status.ok() || IsStopped(*result.outcome));
  verdict.last_status = result.outcome.value_or(JobOutcome()).last_status;
  verdict.rounds += life.job.stay() ? result.rounds : 0;
  verdict.take_overs += result.take_overs;
  verdict.violation = rounds.wrong();
  if (verdict.violation.empty()) verdict.violation = result.wrong_coordinators;
  if (verdict.violation.empty()) verdict.violation = history.violation;
  if (verdict.violation.empty()) verdict.violation = BadEnd(life, result);
  if (verdict.violation.empty()) verdict.violation = result.wrong_copies;
  verdict.compared_copies += result.compared_copies;
  verdict.copies_made_again += result.copies_made_again;
  verdict.checked_replies += result.checked_replies;
  verdict.servers_lost += result.servers_lost;
  verdict.servers_replaced += result.servers_replaced;
  verdict.is_without_copy |= result.outcome.has_value() && IsWithoutCopy(result.outcome->status);
  if (verdict.violation.empty()) verdict.violation = result.wrong_values;
  if (verdict.violation.empty()) verdict.violation = result.wrong_end;
  if (verdict.violation.empty()) verdict.violation = result.wrong_operation;
  if (verdict.violation.empty() && have_all_lived) verdict.violation = result.incomplete_operation;
  if (verdict.violation.empty() && have_all_lived) verdict.violation = rounds.missing_push();
  if (verdict.violation.empty() && verdict.is_done && HasLocalSteps(life) && life.is_always_bsp &&
      have_all_lived) {
    verdict.violation = WrongRoundsEnd(life, *result.outcome, /*has_all=*/restored.empty());
    ++verdict.known_rounds;
  }
  if (verdict.violation.empty() && have_all_lived) verdict.violation = result.wrong_state;
  if (verdict.violation.empty() && have_all_lived) verdict.violation = result.wrong_rows;
  if (verdict.violation.empty() && life.gradient_unit != 0 && have_all_lived &&
      life.job.consistency().mode() == v1::ConsistencySpec::BSP) {
    verdict.violation = WrongCopies(life, result);
  }
  if (verdict.violation.empty() && verdict.is_done && life.has_known_end && have_all_lived) {
    verdict.violation = WrongValues(life, result);
    ++verdict.known_values;
  }
  verdict.has_lost_initial = IsInitialLost(result);
  if (verdict.violation.empty() && verdict.is_done && life.gradient_unit != 0 && have_all_lived) {
    verdict.violation = WrongEnd(life, result);
    ++verdict.known_ends;
  }
  const std::string wrong_state = own_states.EndLife(life, result);
  if (verdict.violation.empty() && have_all_lived) {
    verdict.violation = wrong_state;
    if (!restored.empty()) verdict.own_states += static_cast<int>(result.own_states.size());
  }
  verdict.exchanges += history.exchanges;
  for (const v1::HistoryRecord& record : result.records) {
    const v1::ContractRecord& contract = record.contract();
    verdict.changes +=
        !contract.has_table() && contract.from_step() > 0 && contract.from_step() < life.steps;
  }
  verdict.incarnations = std::max(verdict.incarnations, static_cast<int>(history.incarnations));
  verdict.bytes += SerializeHistory(result.records);
}

}  // namespace

ScenarioVerdict RunScenario(const Scenario& scenario) {
  SimulatedDisk disk(scenario.disk, scenario.seed);
  OwnStateCheck own_states;
  RoundCheck rounds;
  ScenarioVerdict verdict;
  RunLife(scenario, disk, own_states, rounds, verdict);
  for (const Scenario& life : scenario.next_lives) {
    if (verdict.is_done || !verdict.violation.empty()) break;
    RunLife(life, disk, own_states, rounds, verdict);
  }
  verdict.checked_pushes = rounds.checked_pushes();
  return verdict;
}

std::string BadEnd(const Scenario& scenario, const SimulationResult& result) {
  if (result.is_cut) return "";
  if (!result.outcome.has_value()) {
    return result.is_registering && CanLackMember(scenario) ? "" : "the job has hung";
  }
  const absl::Status& status = result.outcome->status;
  if (status.ok() || IsStopped(*result.outcome) || MayFailFor(scenario, status.message()))
    return "";
  return absl::StrCat("the job has failed: ", status.message());
}

}  // namespace capstan
