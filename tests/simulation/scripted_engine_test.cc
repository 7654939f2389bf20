#include "tests/simulation/scripted_engine.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/base/real_clock.h"
#include "common/base/simulated_clock.h"
#include "common/history/history.h"
#include "worker/engine/training_rig.h"

namespace capstan {
namespace {

// A table of each layer, with 2 slices of 6 elements: 2 workers, 3 steps.
ScriptedEngine::Options Options(Clock* clock, std::vector<int>* draws) {
  ScriptedEngine::Options options;
  options.clock = clock;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    v1::TableSpec& table = options.tables.emplace_back();
    table.add_shape(12);
    table.set_layer(layer);
  }
  options.slice_bytes = 6 * sizeof(float);
  options.steps = 3;
  options.compute_time = [draws] {
    draws->push_back(1);
    return absl::ZeroDuration();
  };
  return options;
}

// The turn of worker 1 at each step.
Dataset Turns() {
  Dataset turns;
  turns.feature_count = 2;
  turns.class_count = 1;
  turns.features = {1, 0, 1, 1, 1, 2};
  turns.labels = {0, 0, 0};
  return turns;
}

TEST(ScriptedEngineTest, PushesTheUpdateOfEachTurnInEverySlice) {
  RealClock clock;
  std::vector<int> draws;
  ScriptedEngine engine(Options(&clock, &draws));
  TrainingRig::Options rig_options;
  rig_options.slice_bytes = 6 * sizeof(float);
  rig_options.learning_rate = 1;
  const auto rig = TrainingRig::Create(&engine, &clock, rig_options).value();
  const float u = kTestUpdate;
  const std::vector<std::vector<float>> slices = {
      {0, 0, 0, u, 0, 0}, {0, 0, 0, u, u, 0}, {0, 0, 0, u, u, u}};
  for (uint32_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(rig->Step(Turns(), {step}).ok());
    ASSERT_TRUE(rig->store().WaitForAll().ok());
    std::vector<float> expected;
    for (int slice = 0; slice < 4; ++slice) {
      expected.insert(expected.end(), slices[step].begin(), slices[step].end());
    }
    EXPECT_EQ(rig->Values(), expected) << "after step " << step;
  }
  EXPECT_EQ(draws.size(), 3u) << "one time for each step";
  ASSERT_TRUE(rig->Finish().ok());
}

TEST(ScriptedEngineTest, WithAGradientUnitEveryElementIsAMultipleOfIt) {
  RealClock clock;
  std::vector<int> draws;
  ScriptedEngine::Options options = Options(&clock, &draws);
  options.gradient_unit = 0.1f;
  ScriptedEngine engine(std::move(options));
  TrainingRig::Options rig_options;
  rig_options.slice_bytes = 6 * sizeof(float);
  rig_options.learning_rate = 1;
  const auto rig = TrainingRig::Create(&engine, &clock, rig_options).value();
  std::vector<float> expected(24);
  std::set<float> gradients;
  for (uint32_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(rig->Step(Turns(), {step}).ok());
    for (uint32_t i = 0; i < 24; ++i) {
      const SliceKey key{TableId(i / 12), SliceIndex(i / 6 % 2)};
      const float gradient = DenseGradient(WorkerId(1), Step(step), key, i % 6);
      expected[i] -= 0.1f * gradient;
      gradients.insert(gradient);
    }
  }
  ASSERT_TRUE(rig->store().WaitForAll().ok());
  EXPECT_EQ(rig->Values(), expected);
  EXPECT_GT(gradients.size(), 20u) << "slices and steps differ";
  ASSERT_TRUE(rig->Finish().ok());
}

TEST(ScriptedEngineTest, ItsOwnStateIsTheSumOfItsGradientsInEverySlice) {
  RealClock clock;
  std::vector<int> draws;
  ScriptedEngine::Options options = Options(&clock, &draws);
  options.own_arrays = 2;
  std::vector<std::vector<float>> first;
  options.on_first_state = [&first](WorkerId worker, Step step, SliceKey,
                                    const std::vector<float>& state) {
    EXPECT_EQ(worker, WorkerId(1));
    EXPECT_EQ(step, Step(0));
    first.push_back(state);
  };
  ScriptedEngine engine(std::move(options));
  TrainingRig::Options rig_options;
  rig_options.slice_bytes = 6 * sizeof(float);
  const auto rig = TrainingRig::Create(&engine, &clock, rig_options).value();
  const SliceKey last{TableId(1), SliceIndex(1)};
  std::vector<float> state(12, 9.0f);
  engine.own_state()->Load(last, state);
  for (uint32_t step = 0; step < 2; ++step) ASSERT_TRUE(rig->Step(Turns(), {step}).ok());
  ASSERT_TRUE(rig->store().WaitForAll().ok());
  EXPECT_EQ(first, (std::vector<std::vector<float>>{std::vector<float>(12), std::vector<float>(12),
                                                    std::vector<float>(12),
                                                    std::vector<float>(12, 9.0f)}));
  engine.own_state()->Save({TableId(0), SliceIndex(1)}).CopyTo(absl::MakeSpan(state));
  const float u = kTestUpdate;
  EXPECT_EQ(state, (std::vector<float>{0, 0, 0, -u, -u, 0, 0, 0, 0, -2 * u, -2 * u, 0}));
  ASSERT_TRUE(rig->Finish().ok());
}

TEST(ScriptedEngineDeathTest, TheBatchOfAnotherStepIsFound) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // the clock has a thread
  RealClock clock;
  std::vector<int> draws;
  ScriptedEngine engine(Options(&clock, &draws));
  const auto rig = TrainingRig::Create(&engine, &clock, TrainingRig::Options()).value();
  EXPECT_DEATH((void)rig->Step(Turns(), {1}), "the batch of another step");
}

Scenario ThreeWorkers(int64_t steps) {
  Scenario scenario;
  scenario.steps = steps;
  scenario.job.mutable_cluster()->set_num_workers(3);
  scenario.tables.emplace_back().add_shape(3 * static_cast<uint64_t>(steps));
  scenario.compute_time = [](uint32_t, Random&) { return absl::ZeroDuration(); };
  return scenario;
}

TEST(ScriptedJobPreparerTest, EachSampleSaysWhoseTurnAtWhichStepItIs) {
  const Scenario scenario = ThreeWorkers(/*steps=*/5);
  SimulatedClock clock;
  JobSetup setup = ScriptedJobPreparer(scenario, /*process=*/0)(scenario.job, &clock).value();
  EXPECT_EQ(setup.steps, 5);
  EXPECT_EQ(setup.engine->tables().size(), 1u);
  std::set<std::pair<float, float>> turns;
  for (int64_t step = 0; step < 5; ++step) {
    for (uint32_t worker = 0; worker < 3; ++worker) {
      const absl::Span<const uint32_t> samples =
          setup.sampler->Indices(WorkerId(worker), Step(step));
      ASSERT_EQ(samples.size(), 1u);
      const absl::Span<const float> turn = setup.data.train.Row(samples[0]);
      EXPECT_EQ(turn[0], static_cast<float>(worker));
      EXPECT_EQ(turn[1], static_cast<float>(step));
      turns.emplace(turn[0], turn[1]);
    }
  }
  EXPECT_EQ(turns.size(), 15u);
}

TEST(ScriptedJobPreparerTest, WithoutTestValuesTheDataDoNotGrowWithTheSteps) {
  Scenario scenario = ThreeWorkers(/*steps=*/1'000'000);
  scenario.has_test_values = false;
  SimulatedClock clock;
  const JobSetup setup = ScriptedJobPreparer(scenario, /*process=*/0)(scenario.job, &clock).value();
  EXPECT_EQ(setup.data.train.size(), 3u);
  EXPECT_EQ(setup.steps, 1'000'000);
}

}  // namespace
}  // namespace capstan
