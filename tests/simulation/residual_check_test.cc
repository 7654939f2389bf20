#include "tests/simulation/residual_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/scripted_engine.h"
#include "worker/models/training/evaluate.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// One table with 2 slices of 12 elements; 3 workers with 4 steps.
Scenario ThreeWorkers(v1::ConsistencySpec::Mode mode, const char* codec) {
  Scenario scenario;
  scenario.job.mutable_cluster()->set_num_workers(3);
  scenario.job.mutable_consistency()->set_mode(mode);
  scenario.job.mutable_scheduler()->set_slice_bytes(12 * sizeof(float));
  scenario.job.mutable_codec()->set_push(codec);
  scenario.steps = 4;
  scenario.tables.emplace_back().add_shape(24);
  scenario.gradient_unit = mode == v1::ConsistencySpec::BSP ? 0.1f : 1.0f;
  return scenario;
}

// A good end with these values of the table.
SimulationResult EndWith(const std::vector<float>& values) {
  SimulationResult result;
  const std::vector<absl::Span<const float>> tables = {values};
  result.outcome.emplace().result.set_parameters_xxh3(HashParameters(tables));
  return result;
}

double SumOfGradients(const Scenario& scenario, size_t element) {
  double sum = 0;
  for (uint32_t worker = 0; worker < 3; ++worker) {
    for (int64_t step = 0; step < scenario.steps; ++step) {
      const SliceKey key{TableId(0), SliceIndex(static_cast<uint32_t>(element / 12))};
      sum += static_cast<double>(scenario.gradient_unit *
                                 DenseGradient(WorkerId(worker), Step(step), key, element % 12));
    }
  }
  return sum;
}

TEST(ResidualCheckTest, TheSerialTrainingLosesNothingAndLeavesResiduals) {
  for (const char* codec :
       {"topk:1", "topk:2:bfloat16", "topk:0.3", "topk:3:int8", "bfloat16", "int8"}) {
    const Scenario scenario = ThreeWorkers(v1::ConsistencySpec::BSP, codec);
    const ResidualTraining end = TrainWithResiduals(scenario);
    double residual = 0;
    for (size_t i = 0; i < 24; ++i) {
      const double sent = -3.0 * static_cast<double>(end.values[0][i]);
      EXPECT_NEAR(sent + end.residuals[0][i], SumOfGradients(scenario, i), 1e-3) << codec;
      residual += std::abs(end.residuals[0][i]);
    }
    EXPECT_GT(residual, 0) << codec;
  }
}

TEST(ResidualCheckTest, TheLargestElementIsSentFirst) {
  Scenario scenario = ThreeWorkers(v1::ConsistencySpec::BSP, "topk:1");
  scenario.steps = 1;
  scenario.job.mutable_cluster()->set_num_workers(1);
  std::vector<float> expected(24);
  for (size_t slice = 0; slice < 2; ++slice) {
    size_t largest = 0;
    std::vector<float> gradient;
    for (size_t i = 0; i < 12; ++i) {
      gradient.push_back(DenseGradient(WorkerId(0), Step(0),
                                       {TableId(0), SliceIndex(static_cast<uint32_t>(slice))}, i));
      if (std::abs(gradient[i]) > std::abs(gradient[largest])) largest = i;
    }
    expected[12 * slice + largest] = 0.0f - 0.1f * gradient[largest];
  }
  EXPECT_EQ(TrainWithResiduals(scenario).values[0], expected);
}

TEST(ResidualCheckTest, AResidualMovesTheParametersAsItsOwnRateSays) {
  for (const char* codec : {"topk:1", "topk:2:bfloat16", "topk:0.3", "bfloat16", "int8"}) {
    Scenario scenario = ThreeWorkers(v1::ConsistencySpec::BSP, codec);
    scenario.job.mutable_cluster()->set_num_workers(1);
    scenario.program.emplace();
    scenario.program->seed = 7;
    scenario.program->has_learning_rates = true;
    scenario.program->has_rates_by_worker = true;
    scenario.steps = 20;
    std::vector<double> sums(24);
    bool has_zero = false;
    for (Step step; step < Step(20); step = step + 1) {
      const double rate = *scenario.program->LearningRate(WorkerId(0), step, TableId(0));
      has_zero = has_zero || rate == 0;
      for (size_t i = 0; i < 24; ++i) {
        const SliceKey key{TableId(0), SliceIndex(static_cast<uint32_t>(i / 12))};
        sums[i] += rate * static_cast<double>(scenario.gradient_unit *
                                              DenseGradient(WorkerId(0), step, key, i % 12));
      }
    }
    ASSERT_TRUE(has_zero);
    const ResidualTraining end = TrainWithResiduals(scenario);
    for (size_t i = 0; i < 24; ++i) {
      EXPECT_NEAR(end.residuals[0][i] - static_cast<double>(end.values[0][i]), sums[i], 1e-2)
          << codec;
    }
  }
}

TEST(ResidualCheckTest, UnderBspOneWrongBitIsFound) {
  const Scenario scenario = ThreeWorkers(v1::ConsistencySpec::BSP, "topk:1");
  std::vector<float> values = TrainWithResiduals(scenario).values[0];
  EXPECT_EQ(WrongEnd(scenario, EndWith(values)), "");
  values[7] = std::nextafter(values[7], 9e9f);
  EXPECT_THAT(WrongEnd(scenario, EndWith(values)),
              HasSubstr("error feedback: expected final parameters with the XXH3-64 "));
}

TEST(ResidualCheckTest, TheCodecOfPullsDoesNotChangeTheEnd) {
  Scenario scenario = ThreeWorkers(v1::ConsistencySpec::BSP, "topk:1");
  const std::vector<float> values = TrainWithResiduals(scenario).values[0];
  scenario.job.mutable_codec()->set_pull("bfloat16");
  EXPECT_EQ(WrongEnd(scenario, EndWith(values)), "");
}

TEST(ResidualCheckTest, OneWrongBitOfADifferenceIsFound) {
  for (const char* codec : {"topk:1", "topk:2:bfloat16", "topk:0.1"}) {
    Scenario scenario = ThreeWorkers(v1::ConsistencySpec::BSP, "float32");
    scenario.job.mutable_codec()->set_pull(codec);
    SimulationResult result;
    result.copies = TrainWithResiduals(scenario).copies;
    ASSERT_EQ(result.copies.size(), 10u) << "2 slices, versions 0 to 4";
    EXPECT_EQ(WrongCopies(scenario, result), "");
    float& value = result.copies[{{TableId(0), SliceIndex(1)}, 3}][2];
    value = std::nextafter(value, 9e9f);
    EXPECT_EQ(WrongCopies(scenario, result),
              "differences: the workers have other values of version 3 of slice 1 of table 0 than "
              "the differences of a serial training add up to");
  }
}

TEST(ResidualCheckTest, DifferencesLackWhatIsNotAmongTheLargest) {
  Scenario scenario = ThreeWorkers(v1::ConsistencySpec::BSP, "float32");
  scenario.job.mutable_codec()->set_pull("topk:2");
  scenario.steps = 1;
  const ResidualTraining training = TrainWithResiduals(scenario);
  const std::vector<float>& copy = training.copies.at({{TableId(0), SliceIndex(0)}, 1});
  int moved = 0;
  for (size_t i = 0; i < 12; ++i) {
    if (copy[i] == 0) continue;
    EXPECT_EQ(copy[i], training.values[0][i]);
    ++moved;
  }
  EXPECT_EQ(moved, 2);
}

TEST(ResidualCheckTest, OtherwiseTheResidualsMustBeWhatTheParametersLack) {
  const Scenario scenario = ThreeWorkers(v1::ConsistencySpec::ASYNC, "topk:1");
  std::vector<float> values(24);
  for (size_t i = 0; i < 24; ++i) values[i] = static_cast<float>(0 - SumOfGradients(scenario, i));
  values[5] += 30;  // not sent
  SimulationResult result = EndWith(values);
  EXPECT_EQ(WrongEnd(scenario, result),
            "error feedback: expected a final residual of each of 3 workers, got 0");
  for (uint32_t slice = 0; slice < 2; ++slice) {
    for (uint32_t worker = 0; worker < 3; ++worker) {
      result.residuals.push_back(
          {WorkerId(worker), {TableId(0), SliceIndex(slice)}, std::vector<float>(12)});
    }
  }
  EXPECT_THAT(WrongEnd(scenario, result), HasSubstr("XXH3-64"));
  result.residuals[0].values[5] = 20;
  result.residuals[2].values[5] = 10;
  EXPECT_EQ(WrongEnd(scenario, result), "");
}

}  // namespace
}  // namespace capstan
