#include "worker/engine/make_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/real_clock.h"

namespace capstan {
namespace {

EngineOptions SmallModel(Clock* clock) {
  EngineOptions options;
  options.feature_count = 4;
  options.class_count = 3;
  options.max_samples = 8;
  options.clock = clock;
  return options;
}

TEST(MakeEngineTest, TheCpuIsAlwaysThere) {
  RealClock clock;
  const auto engine =
      EngineFactoryOf({/*is_cuda=*/false, /*number=*/0}, /*tracer=*/nullptr)(SmallModel(&clock));
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ((*engine)->device_name(), "cpu");
  EXPECT_EQ((*engine)->tables().size(), 6u);
}

TEST(MakeEngineTest, ABuildWithoutCudaSaysSoAndWhatToDo) {
  RealClock clock;
  const auto engine =
      EngineFactoryOf({/*is_cuda=*/true, /*number=*/0}, /*tracer=*/nullptr)(SmallModel(&clock));
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(engine.status().message()), testing::HasSubstr("--config=cuda"));
}

}  // namespace
}  // namespace capstan
