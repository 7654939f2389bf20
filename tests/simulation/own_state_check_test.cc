#include "tests/simulation/own_state_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/exchange/payload.h"
#include "common/history/history.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// 2 workers with 3 steps and one array of own state.
Scenario TwoWorkers(v1::ConsistencySpec::Mode mode) {
  Scenario life;
  life.job.mutable_cluster()->set_num_workers(2);
  life.job.mutable_consistency()->set_mode(mode);
  life.steps = 3;
  life.own_arrays = 1;
  return life;
}

// A checkpoint of one slice. It has each worker's update of step 0.
SimulatedDisk::Checkpoint CheckpointOfStep1() {
  const float u = kTestUpdate;
  const auto values =
      std::make_shared<std::vector<float>>(std::vector<float>{u / 2, 0, 0, u / 2, 0, 0});
  SliceSnapshot slice;
  slice.key = {TableId(0), SliceIndex(0)};
  slice.values = Payload(absl::MakeConstSpan(*values), values);
  SimulatedDisk::Checkpoint checkpoint;
  checkpoint.files[0].snapshot.slices.push_back(std::move(slice));
  return checkpoint;
}

// What is wrong if worker 1 begins step 1 of its second life with these numbers of gradients of
// worker 0 at step 0, 1, 2, and of its own.
std::string Wrong(v1::ConsistencySpec::Mode mode, const std::vector<float>& gradients) {
  const Scenario life = TwoWorkers(mode);
  const SimulatedDisk::Checkpoint checkpoint = CheckpointOfStep1();
  OwnStateCheck check;
  check.BeginLife(life, nullptr);
  EXPECT_EQ(check.EndLife(life, SimulationResult()), "");
  check.BeginLife(life, &checkpoint);
  FirstOwnState begin{WorkerId(1), Step(1), {TableId(0), SliceIndex(0)}, gradients};
  for (float& element : begin.state) element *= -kTestUpdate;
  SimulationResult result;
  result.own_states.push_back(std::move(begin));
  return check.EndLife(life, result);
}

TEST(OwnStateCheckTest, UnderBspEachStepBeforeIsInTheStateOnceAndNothingElse) {
  constexpr auto kBsp = v1::ConsistencySpec::BSP;
  EXPECT_EQ(Wrong(kBsp, {0, 0, 0, 1, 0, 0}), "");
  EXPECT_EQ(Wrong(kBsp, {0, 0, 0, 0, 0, 0}),
            "own state: worker 1 begins step 1 with 0 times the gradient of worker 1 at step 0 in "
            "slice 0 of table 0, array 0; expected 1 to 1 times");
  EXPECT_THAT(Wrong(kBsp, {0, 0, 0, 2, 0, 0}), HasSubstr("with 2 times"));
  EXPECT_THAT(Wrong(kBsp, {0, 0, 0, 1, 1, 0}), HasSubstr("at step 1"));
  EXPECT_THAT(Wrong(kBsp, {1, 0, 0, 1, 0, 0}), HasSubstr("of worker 0 at step 0"));
}

TEST(OwnStateCheckTest, OtherwiseTheStateMayHaveOneStepMoreThanTheSlice) {
  constexpr auto kAsync = v1::ConsistencySpec::ASYNC;
  EXPECT_EQ(Wrong(kAsync, {0, 0, 0, 1, 0, 0}), "");
  EXPECT_EQ(Wrong(kAsync, {0, 0, 0, 1, 1, 0}), "");
  EXPECT_THAT(Wrong(kAsync, {0, 0, 0, 1, 1, 1}), HasSubstr("at step 2"));
  EXPECT_THAT(Wrong(kAsync, {0, 0, 0, 0, 1, 0}), HasSubstr("with 0 times"));
  EXPECT_THAT(Wrong(kAsync, {0, 0, 0, 2, 0, 0}), HasSubstr("expected 1 to 1 times"));
}

TEST(OwnStateCheckTest, AJobThatBeginsAnewHasNoState) {
  const Scenario life = TwoWorkers(v1::ConsistencySpec::SSP);
  OwnStateCheck check;
  SimulationResult result;
  result.own_states.push_back({WorkerId(0), Step(0), {}, {-kTestUpdate, 0, 0, 0, 0, 0}});
  for (int i = 0; i < 2; ++i) {
    check.BeginLife(life, nullptr);
    EXPECT_THAT(check.EndLife(life, result), HasSubstr("expected 0 to 0 times"));
  }
}

}  // namespace
}  // namespace capstan
