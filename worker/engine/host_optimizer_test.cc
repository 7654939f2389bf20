#include "worker/engine/host_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/exchange/payload.h"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr TableId kTable(0);
constexpr uint64_t kSize = 6;  // in slices of 4 and 2

std::unique_ptr<HostOptimizer> Make(v1::OptimizerSpec::Type type, bool goes_on = false) {
  v1::OptimizerSpec spec;
  spec.set_type(type);
  spec.set_learning_rate(0.1);
  v1::TableSpec table;
  table.add_shape(kSize);
  auto optimizer = HostOptimizer::Create(spec, {table}, goes_on).value();
  optimizer->state().UseSlices({Slicing(kSize, 4 * sizeof(float))});
  return optimizer;
}

void Step(HostOptimizer& optimizer, float gradient, std::vector<float>& values) {
  const std::vector<float> gradients(kSize, gradient);
  optimizer.Step(kTable, gradients, absl::MakeSpan(values));
}

std::vector<float> Saved(HostOptimizer& optimizer, uint32_t slice) {
  const Payload payload = optimizer.state().Save({kTable, SliceIndex(slice)});
  std::vector<float> floats(payload.size_bytes() / sizeof(float));
  payload.CopyTo(absl::MakeSpan(floats));
  return floats;
}

TEST(HostOptimizerTest, AStateIsItsArraysAndTheStepsIfTheyCount) {
  EXPECT_EQ(Make(v1::OptimizerSpec::SGD)->state().arrays(), 0u);
  EXPECT_EQ(Make(v1::OptimizerSpec::MOMENTUM)->state().arrays(), 1u);
  EXPECT_EQ(Make(v1::OptimizerSpec::LION)->state().arrays(), 1u);
  EXPECT_EQ(Make(v1::OptimizerSpec::ADAMW)->state().arrays(), 3u);
}

TEST(HostOptimizerTest, AnotherOneGoesOnFromItsStateWithTheSameBits) {
  for (const bool goes_on : {false, true}) {
    const auto first = Make(v1::OptimizerSpec::ADAMW, goes_on);
    std::vector<float> values(kSize, 1.0f);
    for (const float gradient : {0.5f, -0.25f, 2.0f}) Step(*first, gradient, values);
    first->NotePush(kTable);
    EXPECT_EQ(Saved(*first, 0).size(), 12u);
    const std::vector<float> last_slice = Saved(*first, 1);
    EXPECT_EQ(last_slice.size(), 6u);
    EXPECT_EQ(last_slice.back(), 3) << "steps";

    const auto second = Make(v1::OptimizerSpec::ADAMW, goes_on);
    for (const uint32_t slice : {1, 0}) {
      second->state().Load({kTable, SliceIndex(slice)}, Saved(*first, slice));
    }
    EXPECT_EQ(Saved(*second, 0), Saved(*first, 0)) << "also before its first push";
    std::vector<float> same = values;
    Step(*first, 0.75f, values);
    Step(*second, 0.75f, same);
    EXPECT_EQ(values, same);
  }
}

TEST(HostOptimizerTest, WhileStepsGoOnTheStateOfThePushIsSaved) {
  const auto optimizer = Make(v1::OptimizerSpec::ADAGRAD, /*goes_on=*/true);
  std::vector<float> values(kSize, 1.0f);
  Step(*optimizer, 2.0f, values);
  optimizer->NotePush(kTable);
  Step(*optimizer, 3.0f, values);
  EXPECT_THAT(Saved(*optimizer, 0), Each(4.0f));
  optimizer->NotePush(kTable);
  EXPECT_THAT(Saved(*optimizer, 1), ElementsAre(13.0f, 13.0f));
}

TEST(HostOptimizerTest, AWrongOptimizerIsRefused) {
  v1::OptimizerSpec spec;
  spec.set_type(v1::OptimizerSpec::FTRL);
  EXPECT_TRUE(absl::IsInvalidArgument(HostOptimizer::Create(spec, {}, false).status()));
}

}  // namespace
}  // namespace capstan
