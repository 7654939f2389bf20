#include <glog/logging.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/simulation/coordinator_loss_scenario.h"
#include "tests/simulation/run_scenario.h"
#include "tests/simulation/scenario.h"

namespace capstan {
namespace {

// The events of 2,000 seeds.
struct Coverage {
  std::atomic<int> done = 0;
  std::atomic<int> failed = 0;
  std::atomic<int> with_replacement = 0;    // a worker took another's place
  std::atomic<int> changes = 0;             // of the consistency, within the steps
  std::atomic<int> restores = 0;            // from a checkpoint
  std::atomic<int> own_states = 0;          // with which workers began after a restore
  std::atomic<int> known_ends = 0;          // with residuals: the final parameters are compared
  std::atomic<int> restored_ends = 0;       // the same, of jobs that were restored
  std::atomic<int64_t> rounds = 0;          // of workers, in jobs that stay
  std::atomic<int> known_values = 0;        // of programs, and with momentum: the same
  std::atomic<int64_t> checked_pushes = 0;  // with local steps
  std::atomic<int> known_rounds = 0;        // the same: the final parameters are compared
  std::atomic<int> restored_rounds = 0;     // the same, of jobs that were restored
  std::atomic<int> programs = 0;            // jobs of users' programs that ended well
  std::atomic<int> lost_initials = 0;       // worker 0 was lost before it had sent initial values
  std::atomic<int64_t> exchanges = 0;
};

void RunSeed(uint64_t seed, Coverage& coverage) {
  const Scenario scenario = DrawScenario(seed);
  const ScenarioVerdict verdict = RunScenario(scenario);
  EXPECT_EQ(verdict.violation, "") << "seed " << seed << ": " << Describe(scenario);
  (verdict.is_done ? coverage.done : coverage.failed)++;
  coverage.changes += verdict.changes;
  coverage.restores += verdict.restores;
  coverage.own_states += verdict.own_states;
  coverage.known_ends += verdict.known_ends;
  coverage.rounds += verdict.rounds;
  coverage.restored_ends += verdict.restores > 0 ? verdict.known_ends : 0;
  coverage.known_values += verdict.known_values;
  coverage.checked_pushes += verdict.checked_pushes;
  coverage.known_rounds += verdict.known_rounds;
  coverage.restored_rounds += verdict.restores > 0 ? verdict.known_rounds : 0;
  coverage.programs += scenario.program.has_value() && verdict.is_done;
  coverage.lost_initials += verdict.has_lost_initial;
  coverage.exchanges += static_cast<int64_t>(verdict.exchanges);
  coverage.with_replacement +=
      verdict.incarnations > static_cast<int>(scenario.job.cluster().num_workers());
}

TEST(SimulationTest, TwoThousandSchedulesKeepTheContract) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  constexpr uint64_t kSeeds = 2000;
  Coverage coverage;
  std::atomic<uint64_t> next = 1;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (uint64_t seed = next++; seed <= kSeeds; seed = next++) RunSeed(seed, coverage);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The schedules test enough: nearly all jobs do much work, and many lose and gain workers or
  // change their consistency.
  EXPECT_GT(coverage.done, 1700);
  EXPECT_GT(coverage.failed, 100);
  EXPECT_GT(coverage.with_replacement, 100);
  EXPECT_GT(coverage.changes, 600);
  EXPECT_GT(coverage.restores, 500);
  EXPECT_GT(coverage.own_states, 400);
  EXPECT_GT(coverage.known_ends, 150);
  EXPECT_GT(coverage.restored_ends, 10);
  EXPECT_GT(coverage.rounds, 200);
  EXPECT_GT(coverage.known_values, 50);
  EXPECT_GT(coverage.checked_pushes, 5000);
  EXPECT_GT(coverage.known_rounds, 15);
  EXPECT_GT(coverage.restored_rounds, 5);
  EXPECT_GT(coverage.programs, 200);
  EXPECT_GT(coverage.lost_initials, 5);
  EXPECT_GT(coverage.exchanges, 200'000);
}

TEST(SimulationTest, FourHundredSchedulesWithTwoCopiesKeepTheContract) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  int done = 0;
  int64_t compared = 0;
  int64_t replies = 0;
  int64_t made_again = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const Scenario scenario = DrawCopiedScenario(seed);
    const ScenarioVerdict verdict = RunScenario(scenario);
    EXPECT_EQ(verdict.violation, "") << "seed " << seed << ": " << Describe(scenario);
    done += verdict.is_done ? 1 : 0;
    compared += verdict.compared_copies;
    replies += verdict.checked_replies;
    made_again += verdict.copies_made_again;
  }
  EXPECT_GT(done, 300);
  EXPECT_GT(compared, 300'000);
  EXPECT_GT(replies, 30'000);
  EXPECT_GT(made_again, 200);
}

TEST(SimulationTest, ThreeHundredSchedulesWithLostServersKeepTheContract) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  int done = 0;
  int without_copy = 0;
  int64_t lost = 0;
  int64_t replaced = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Scenario scenario = DrawFailOverScenario(seed);
    const ScenarioVerdict verdict = RunScenario(scenario);
    EXPECT_EQ(verdict.violation, "") << "seed " << seed << ": " << Describe(scenario);
    done += verdict.is_done ? 1 : 0;
    without_copy += verdict.is_without_copy ? 1 : 0;
    lost += verdict.servers_lost;
    replaced += verdict.servers_replaced;
  }
  EXPECT_GT(done, 200);
  EXPECT_GT(without_copy, 10);
  EXPECT_LT(without_copy, 80);
  EXPECT_GT(lost, 300);
  EXPECT_GT(replaced, 150);
}

TEST(SimulationTest, TwoHundredSchedulesWithLostCoordinatorsKeepTheContract) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  int done = 0;
  int64_t take_overs = 0;
  int64_t servers_lost = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Scenario scenario = DrawCoordinatorLossScenario(seed);
    const ScenarioVerdict verdict = RunScenario(scenario);
    EXPECT_EQ(verdict.violation, "") << "seed " << seed << ": " << Describe(scenario);
    done += verdict.is_done ? 1 : 0;
    take_overs += verdict.take_overs;
    servers_lost += verdict.servers_lost;
  }
  EXPECT_GT(done, 160);
  EXPECT_GT(take_overs, 250);
  EXPECT_GT(servers_lost, 60);
}

TEST(SimulationTest, TheSameSeedIsTheSameHistoryByteForByte) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  std::set<std::string> histories;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string bytes = RunScenario(DrawScenario(seed)).bytes;
    EXPECT_EQ(RunScenario(DrawScenario(seed)).bytes, bytes) << "seed " << seed;
    histories.insert(bytes);
  }
  EXPECT_EQ(histories.size(), 50u) << "each seed is another schedule";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Scenario scenario = DrawCoordinatorLossScenario(seed);
    EXPECT_EQ(RunScenario(scenario).bytes, RunScenario(scenario).bytes) << "seed " << seed;
  }
}

}  // namespace
}  // namespace capstan
