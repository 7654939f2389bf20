// Runs the simulation of each mutant, named on the command line, until it finds the fault.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace capstan {
namespace {

constexpr int kMostSeeds = 2000;

std::vector<std::string> mutants;  // programs

// The rule of the contract broken by each fault. Some faults also break other rules, maybe earlier.
const std::map<std::string, std::string>& Rules() {
  static const auto& rules = *new std::map<std::string, std::string>{
      {"auto_codec_before_its_step", "error feedback"},
      {"base_after_new_values", "local steps"},
      {"bsp_before_last_push", "one sum a step"},
      {"change_without_holding_back", "staleness bound"},
      {"copy_not_restored", "differences"},
      {"copy_without_step_vector", "copies agree"},
      {"cut_one_step_late", "isolation"},
      {"dead_worker_counted", "every exchange is answered"},
      {"dedup_lost_on_return", "exactly once"},
      {"dedup_off", "exactly once"},
      {"difference_from_wrong_copy", "read-my-writes"},
      {"divisor_of_the_copy", "copies agree"},
      {"duplicate_before_copy", "copies first"},
      {"early_end_of_one_process", "the job has failed"},
      {"early_end_without_own_state", "the job has hung"},
      {"empty_push_is_no_step", "the job has failed"},
      {"empty_push_not_in_mean", "one sum a step"},
      {"empty_step_applied", "version"},
      {"empty_push_not_copied", "copies agree"},
      {"encoded_mean_in_order_of_arrival", "error feedback"},
      {"encoded_push_not_awaited", "error feedback"},
      {"fragment_in_next_round", "local steps"},
      {"gap_ignored", "copies agree"},
      {"incarnation_checked_too_early", "stale incarnation"},
      {"initial_values_from_anyone", "initial values"},
      {"initial_values_taken_twice", "exactly once"},
      {"join_ends_before_a_push", "the job has failed"},
      {"joiner_lowers_min_step", "staleness bound"},
      {"kept_pushes_overtaken", "read-my-writes"},
      {"keys_of_another_pull", "final values"},
      {"learning_rate_of_last_arrival", "final values"},
      {"learning_rate_of_push_ignored", "update scale"},
      {"left_before_answers", "nothing lost by leaving"},
      {"lost_initial_values_awaited", "every exchange is answered"},
      {"manifest_first", "the job has failed"},
      {"momentum_not_restored", "error feedback"},
      {"momentum_of_push_ignored", "final values"},
      {"no_barrier", "copies first"},
      {"open_rows_with_newest_values", "isolation"},
      {"open_step_with_newest_values", "isolation"},
      {"operation_without_the_last", "operations of all workers"},
      {"optimizer_of_table_ignored", "final values"},
      {"optimizer_state_left_out", "final values"},
      {"others_go_on_with_other_bits", "final values"},
      {"own_state_left_out", "local steps"},
      {"own_states_not_awaited", "own state"},
      {"parameters_left_out", "the job has failed"},
      {"parameters_not_awaited", "the job has failed"},
      {"place_not_held", "final values"},
      {"program_leaves_layers_out", "the job has failed"},
      {"pull_before_initial_values", "initial values"},
      {"repeated_round_with_old_base", "local steps"},
      {"replaced_worker_returns", "stale incarnation"},
      {"record_of_another_copy", "copies agree"},
      {"replacement_enters_late", "the job has hung"},
      {"reply_before_apply", "staleness bound"},
      {"reply_before_copy", "copies first"},
      {"residual_changed_by_retry", "error feedback"},
      {"residual_lost_in_empty_push", "error feedback"},
      {"residual_not_restored", "error feedback"},
      {"residual_not_saved", "error feedback"},
      {"residual_not_scaled", "error feedback"},
      {"rest_of_difference_lost", "differences"},
      {"restored_workers_added_one_by_one", "min_step"},
      {"results_of_open_step_dropped", "the job has failed"},
      {"row_left_out_of_cut", "nothing lost in a checkpoint"},
      {"row_mean_of_givers", "one sum a step"},
      {"row_push_twice", "exactly once"},
      {"rows_of_cut_not_kept", "update scale"},
      {"rows_restored_as_zeros", "exactly once"},
      {"rows_summed_in_other_order", "final values"},
      {"rows_without_gradient_not_sent", "the job has failed"},
      {"sent_momentum_kept", "error feedback"},
      {"shared_copy_not_copied", "copies agree"},
      {"ssp_bound_off_by_one", "staleness bound"},
      {"stale_incarnation_accepted", "stale incarnation"},
      {"staleness_ignored", "update scale"},
      {"state_of_the_steps_end", "state of a program"},
      {"step_beyond_the_end_awaited", "the job has hung"},
      {"step_vector_left_out", "exactly once"},
      {"tables_of_both_processes", "local steps"},
      {"update_larger_than_told", "update scale"},
      {"values_before_not_copied", "copies agree"},
      {"values_encoded_for_each_worker", "one encoding a version"},
      {"whole_before_last_slice", "copies first"},
  };
  return rules;
}

// The same for those that show where servers are lost.
const std::map<std::string, std::string>& RulesOfLosses() {
  static const auto& rules = *new std::map<std::string, std::string>{
      {"acknowledged_after_take_over", "update scale"},
      {"alone_after_a_fault", "the job has failed"},
      {"copy_not_whole_takes_over", "the job has failed"},
      {"copy_number_given_again", "copies agree"},
      {"cut_number_not_copied", "copies agree"},
      {"dead_connection_not_ended", "every exchange is answered"},
      {"initial_values_not_copied", "copies agree"},
      {"kept_push_answered", "the job has failed"},
      {"moment_in_pieces", "every exchange is answered"},
      {"next_step_before_copy", "copies first"},
      {"orphan_not_copied", "copies agree"},
  };
  return rules;
}

// The same of those where coordinators are lost.
const std::map<std::string, std::string>& RulesOfCoordinators() {
  static const auto& rules = *new std::map<std::string, std::string>{
      {"copy_number_forgotten", "one placement an epoch"},
      {"epoch_forgotten", "one placement an epoch"},
      {"error_without_confirmation", "orders of the latest term"},
      {"late_state_counts", "kept before told"},
      {"later_term_reads_before_mkdir", "kept before told"},
      {"lower_term_obeyed", "no lower view"},
      {"state_said_before_kept", "kept before told"},
      {"take_over_not_noticed", "the job has failed"},
  };
  return rules;
}

// Of these, the simulation has two copies of each shard.
bool IsRuleOfCopies(const std::string& rule) { return rule.rfind("copies ", 0) == 0; }

// Mutants that are found in the same schedules.
struct Family {
  const std::map<std::string, std::string>* rules = nullptr;
  std::string flag;  // chooses the schedules
};

Family FamilyOf(const std::string& name) {
  if (RulesOfCoordinators().count(name) > 0) return {&RulesOfCoordinators(), "--lost_coordinators"};
  if (RulesOfLosses().count(name) > 0) return {&RulesOfLosses(), "--lost_servers"};
  const auto rule = Rules().find(name);
  const bool has_copies = rule != Rules().end() && IsRuleOfCopies(rule->second);
  return {&Rules(), has_copies ? "--copies" : ""};
}

std::string NameOf(const std::string& program) { return program.substr(program.rfind('/') + 1); }

struct Finding {
  int exit_code = 0;
  int seed = 0;      // the last one
  std::string rule;  // of the last violation
};

// `family`: the flag that chooses the schedules.
Finding RunMutant(const std::string& program, const std::string& rule, const std::string& family) {
  const std::string command = program + " --threads=1 --until_rule='" + rule + "' " + family +
                              " --seeds=" + std::to_string(kMostSeeds) + " 2>&1";
  FILE* const output = popen(command.c_str(), "r");
  Finding finding;
  char line[4096];
  while (std::fgets(line, sizeof(line), output) != nullptr) {
    const std::string text = line;
    // "seed 7 (ssp(1), ...): rule: finding"
    const size_t found = text.find("): ");
    if (text.rfind("seed ", 0) == 0 && found != std::string::npos) {
      finding.rule = text.substr(found + 3, text.find_first_of(":\n", found + 3) - found - 3);
    }
    if (text.find(" histories, ") != std::string::npos) {
      finding.seed = std::stoi(text);
    }
  }
  finding.exit_code = WEXITSTATUS(pclose(output));
  return finding;
}

// A fault is found by its rule within kMostSeeds seeds.
class MutantTest : public testing::Test {
 public:
  explicit MutantTest(std::string program) : program_(std::move(program)) {}

 private:
  void TestBody() override {
    const std::string name = NameOf(program_);
    const Family family = FamilyOf(name);
    const auto rule = family.rules->find(name);
    ASSERT_NE(rule, family.rules->end()) << name << ": add the rule that it breaks";
    const Finding finding = RunMutant(program_, rule->second, family.flag);
    EXPECT_EQ(finding.exit_code, 1) << name << " was not found";
    EXPECT_EQ(finding.rule, rule->second) << name << " broke no such rule";
    EXPECT_LE(finding.seed, kMostSeeds) << name;
    std::printf("| %-32s | %5d | %-28s |\n", name.c_str(), finding.seed, finding.rule.c_str());
  }

  const std::string program_;
};

TEST(MutantsTest, EachRuleIsThatOfAMutant) {
  std::set<std::string> names, expected;
  for (const std::string& program : mutants) names.insert(NameOf(program));
  for (const auto* rules : {&Rules(), &RulesOfLosses(), &RulesOfCoordinators()}) {
    for (const auto& [name, rule] : *rules) expected.insert(name);
  }
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  capstan::mutants.assign(argv + 1, argv + argc);
  for (const std::string& program : capstan::mutants) {
    testing::RegisterTest(
        "MutantTest", capstan::NameOf(program).c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [program]() -> testing::Test* { return new capstan::MutantTest(program); });
  }
  return RUN_ALL_TESTS();
}
