#include "worker/models/replay/replay_trainer.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/time/time.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

TEST(ReplayTrainerTest, ALocalStepTakesTheTimeOfAStepAndAPushHasTheGradients) {
  RealClock clock;
  EngineOptions options;
  options.clock = &clock;
  options.model.mutable_replay()->set_layers("resnet50");
  options.model.mutable_replay()->set_scale(1000);
  options.model.mutable_replay()->set_compute_seconds(0.02);
  const auto trainer = ReplayTrainer::Create(options).value();
  const absl::Time begin = clock.Now();
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(trainer->Step().ok());
  EXPECT_GE(clock.Now() - begin, absl::Milliseconds(50));
  std::vector<float> difference(20);
  ASSERT_TRUE(trainer->Push(TableId(0), std::vector<float>(20), absl::MakeSpan(difference)).ok());
  EXPECT_FLOAT_EQ(difference[0], -8e-3f);
  EXPECT_FLOAT_EQ(difference[19], -6e-3f);
}

}  // namespace
}  // namespace capstan
