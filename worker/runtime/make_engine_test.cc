#include "worker/runtime/make_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/real_clock.h"
#include "worker/engine/device_name.h"

namespace capstan {
namespace {

TEST(DeviceNameTest, ReadsTheCpuAndGpusByNumber) {
  EXPECT_FALSE(ParseDeviceName("cpu")->is_cuda);
  EXPECT_TRUE(ParseDeviceName("cuda")->is_cuda);
  EXPECT_EQ(ParseDeviceName("cuda")->number, 0);
  EXPECT_TRUE(ParseDeviceName("cuda:12")->is_cuda);
  EXPECT_EQ(ParseDeviceName("cuda:12")->number, 12);
}

TEST(DeviceNameTest, RefusesAnythingElse) {
  for (const char* text : {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda: 1", "cuda:1.5",
                           "cuda:99999999999", "cpu:0", "cuda:0,cuda:1"}) {
    const auto name = ParseDeviceName(text);
    EXPECT_TRUE(absl::IsInvalidArgument(name.status())) << text;
  }
  EXPECT_EQ(ParseDeviceName("gpu").status().message(),
            "--device: expected cpu, cuda or cuda:N with the number of a GPU, from 0; got \"gpu\"");
}

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
  EXPECT_THAT((*engine)->device_name(),
              testing::MatchesRegex("cpu \\(.+, OpenBLAS [0-9.]+ [A-Za-z0-9]+\\)"));
  EXPECT_EQ((*engine)->tables().size(), 6u);
}

TEST(MakeEngineTest, LocalStepsAreForAllDevicesAndReplays) {
  RealClock clock;
  EngineOptions options = SmallModel(&clock);
  options.local_steps.emplace().set_sync_every(20);
  const auto engine = EngineFactoryOf({/*is_cuda=*/false, /*number=*/0}, nullptr)(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ((*engine)->local_steps()->sync_every(), 20);
  EXPECT_EQ((*engine)->own_state()->arrays(), 3u) << "two of AdamW, and its steps";
  EXPECT_FALSE((*engine)->is_replaceable());

  const EngineFactory on_gpu = EngineFactoryOf({/*is_cuda=*/true, /*number=*/0}, nullptr);
  EXPECT_THAT(std::string(on_gpu(options).status().message()), testing::HasSubstr("--config=cuda"));
  options.model.set_type(v1::ModelSpec::REPLAY);
  options.model.mutable_replay()->set_layers("resnet50");
  options.model.mutable_replay()->set_scale(100000);
  const auto replay = on_gpu(options);
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ((*replay)->own_state(), nullptr);
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
