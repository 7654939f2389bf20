#include "tests/simulation/scripted_setup.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "common/base/simulated_clock.h"

namespace capstan {
namespace {

Scenario ThreeWorkers(int64_t steps) {
  Scenario scenario;
  scenario.steps = steps;
  scenario.job.mutable_cluster()->set_num_workers(3);
  scenario.tables.emplace_back().add_shape(3 * static_cast<uint64_t>(steps));
  scenario.compute_time = [](uint32_t, Random&) { return absl::ZeroDuration(); };
  return scenario;
}

TEST(ScriptedSetupTest, EachSampleSaysWhoseTurnAtWhichStepItIs) {
  const Scenario scenario = ThreeWorkers(/*steps=*/5);
  SimulatedClock clock;
  JobSetup setup = ScriptedJobPreparer(scenario, /*process=*/0)(scenario.job, &clock).value();
  EXPECT_EQ(setup.steps, 5);
  EXPECT_EQ(setup.engine->tables().size(), 1u);
  std::set<std::pair<float, float>> turns;
  for (int64_t step = 0; step < 5; ++step) {
    for (uint32_t worker = 0; worker < 3; ++worker) {
      const absl::Span<const uint32_t> samples =
          setup.sampler.Indices(WorkerId(worker), Step(step));
      ASSERT_EQ(samples.size(), 1u);
      const absl::Span<const float> turn = setup.data.train.Row(samples[0]);
      EXPECT_EQ(turn[0], static_cast<float>(worker));
      EXPECT_EQ(turn[1], static_cast<float>(step));
      turns.emplace(turn[0], turn[1]);
    }
  }
  EXPECT_EQ(turns.size(), 15u);
}

TEST(ScriptedSetupTest, WithoutTestValuesTheDataDoNotGrowWithTheSteps) {
  Scenario scenario = ThreeWorkers(/*steps=*/1'000'000);
  scenario.has_test_values = false;
  SimulatedClock clock;
  const JobSetup setup = ScriptedJobPreparer(scenario, /*process=*/0)(scenario.job, &clock).value();
  EXPECT_EQ(setup.data.train.size(), 3u);
  EXPECT_EQ(setup.steps, 1'000'000);
}

}  // namespace
}  // namespace capstan
