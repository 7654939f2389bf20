#include "tests/simulation/user_program.h"

#include <gtest/gtest.h>

#include <set>

namespace capstan {
namespace {

TEST(UserProgramTest, IdleStepsAreThoseOfAllWorkers) {
  UserProgram program;
  program.idle = 0.5;
  int idle = 0;
  for (Step step; step < Step(100); step = step + 1) {
    const bool has_gradient = program.HasGradient(WorkerId(0), step, /*layer=*/1);
    idle += !has_gradient;
    EXPECT_EQ(program.HasGradient(WorkerId(3), step, /*layer=*/1), has_gradient);
  }
  EXPECT_GT(idle, 30);
  EXPECT_LT(idle, 70);
}

TEST(UserProgramTest, EachWorkerLacksGradientsInStepsOfItsOwn) {
  UserProgram program;
  program.without_gradient = 0.5;
  int different = 0;
  for (Step step; step < Step(100); step = step + 1) {
    different += program.HasGradient(WorkerId(0), step, /*layer=*/0) !=
                 program.HasGradient(WorkerId(1), step, /*layer=*/0);
  }
  EXPECT_GT(different, 30);
  EXPECT_LT(different, 70);
}

TEST(UserProgramTest, LearningRatesChangeFromTheFirstOneOn) {
  UserProgram program;
  program.has_learning_rates = true;
  program.first_rate = Step(2);
  EXPECT_FALSE(program.LearningRate(WorkerId(0), Step(1), TableId(0)).has_value());
  std::set<double> rates;
  for (Step step = program.first_rate; step < Step(60); step = step + 1) {
    rates.insert(*program.LearningRate(WorkerId(0), step, TableId(0)));
    EXPECT_EQ(program.LearningRate(WorkerId(1), step, TableId(0)),
              program.LearningRate(WorkerId(0), step, TableId(0)));
  }
  EXPECT_EQ(rates, (std::set<double>{0.25, 0.5, 1, 2, 4}));
}

TEST(UserProgramTest, MomentaChangeFromTheFirstRateOn) {
  UserProgram program;
  program.has_learning_rates = true;
  program.first_rate = Step(2);
  EXPECT_FALSE(program.Momentum(WorkerId(0), Step(1), TableId(0)).has_value());
  std::set<double> momenta;
  for (Step step = program.first_rate; step < Step(60); step = step + 1) {
    momenta.insert(*program.Momentum(WorkerId(0), step, TableId(0)));
  }
  EXPECT_EQ(momenta, (std::set<double>{0, 0.125, 0.25, 0.5}));
}

TEST(UserProgramTest, WorkersMayHaveLearningRatesOfTheirOwn) {
  UserProgram program;
  program.has_learning_rates = true;
  program.has_rates_by_worker = true;
  std::set<double> rates;
  for (uint32_t worker = 0; worker < 60; ++worker) {
    rates.insert(*program.LearningRate(WorkerId(worker), Step(0), TableId(0)));
  }
  EXPECT_EQ(rates, (std::set<double>{0, 0.25, 0.5, 1, 2}));
}

}  // namespace
}  // namespace capstan
