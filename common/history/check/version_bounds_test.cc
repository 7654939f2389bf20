#include "common/history/check/version_bounds.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/history/history.h"
#include "proto/history.pb.h"

namespace capstan {
namespace {

v1::ContractRecord From(int64_t step, v1::ContractRecord::Mode mode) {
  v1::ContractRecord record;
  record.set_from_step(step);
  record.set_mode(mode);
  return record;
}

// A push by `worker` at `step`, sent at 10 * step and acknowledged 5 ns later.
RecordedExchange Push(uint32_t worker, int64_t step) {
  RecordedExchange push;
  push.worker = WorkerId(worker);
  push.slice = {TableId(0), SliceIndex(0)};
  push.push_step = Step(step);
  push.begin_ns = 10 * step;
  push.end_ns = push.begin_ns + 5;
  push.code = absl::StatusCode::kOk;
  return push;
}

// 2 workers push the steps 0 to 5: async, BSP from 2 on, async from 4 on.
class VersionBoundsTest : public testing::Test {
 protected:
  static std::vector<RecordedExchange> Pushes() {
    std::vector<RecordedExchange> pushes;
    for (int64_t step = 0; step < 6; ++step) {
      for (uint32_t worker = 0; worker < 2; ++worker) pushes.push_back(Push(worker, step));
    }
    return pushes;
  }
  static SliceHistory HistoryOf(const std::vector<RecordedExchange>& pushes) {
    std::vector<const RecordedExchange*> exchanges;
    for (const RecordedExchange& push : pushes) exchanges.push_back(&push);
    return SliceHistory(exchanges);
  }

  const std::vector<RecordedExchange> pushes_ = Pushes();
  const SliceHistory slice_ = HistoryOf(pushes_);
  const Contract contract_{{From(0, v1::ContractRecord::ASYNC), From(2, v1::ContractRecord::BSP),
                            From(4, v1::ContractRecord::ASYNC)}};
  const VersionBounds bounds_{slice_, contract_};
};

TEST_F(VersionBoundsTest, EachPushOfAnAsynchronousStepIsOne) {
  EXPECT_EQ(bounds_.Least(Step(0), 0), 0u);
  EXPECT_EQ(bounds_.Most(Step(0), 0), 2u) << "sent at 0";
  EXPECT_EQ(bounds_.Least(Step(0), 15), 2u) << "step 0 was acknowledged at 5, step 1 not before 15";
  EXPECT_EQ(bounds_.Least(Step(2), 16), 4u);
  EXPECT_EQ(bounds_.Most(Step(2), 16), 4u);
}

TEST_F(VersionBoundsTest, ABspStepIsOneOnceItIsComplete) {
  EXPECT_EQ(bounds_.Least(Step(2), 30), 4u);
  EXPECT_EQ(bounds_.Most(Step(2), 30), 4u);
  EXPECT_EQ(bounds_.Least(Step(3), 30), 5u);
  EXPECT_EQ(bounds_.Most(Step(3), 30), 5u);
  EXPECT_EQ(bounds_.Least(Step(4), 36), 6u);
}

TEST_F(VersionBoundsTest, PushesBeyondAnOpenBspStepMayBeKept) {
  EXPECT_EQ(bounds_.Least(Step(3), 100), 5u);
  EXPECT_EQ(bounds_.Most(Step(3), 100), 9u);
  EXPECT_EQ(bounds_.Least(Step(4), 100), 10u);
  EXPECT_EQ(bounds_.Most(Step(6), 100), 10u);
}

TEST_F(VersionBoundsTest, AWorkerThatEntersMayLeaveStepsOut) {
  std::vector<RecordedExchange> pushes;
  for (int64_t step = 1; step < 3; ++step) pushes.push_back(Push(0, step));
  for (int64_t step = 1'000'000; step < 1'000'003; ++step) pushes.push_back(Push(0, step));
  const SliceHistory slice = HistoryOf(pushes);
  const Contract contract({From(0, v1::ContractRecord::ASYNC), From(2, v1::ContractRecord::BSP),
                           From(1'000'000, v1::ContractRecord::ASYNC),
                           From(1'000'001, v1::ContractRecord::BSP)});
  const VersionBounds bounds(slice, contract);
  constexpr int64_t kEnd = 100'000'000;
  // The async step 1, all steps from 2 to 999,999, and from 1,000,000 on each one.
  EXPECT_EQ(bounds.Most(Step(3), 30), 2u);
  EXPECT_EQ(bounds.Most(Step(1'000'000), 30), 1u + 999'998u);
  EXPECT_EQ(bounds.Most(Step(1'000'003), kEnd), 1u + 999'998u + 3u);
  EXPECT_EQ(bounds.Least(Step(1'000'003), kEnd), 5u);
}

TEST_F(VersionBoundsTest, PushesWithoutAGradientMakeNoVersion) {
  std::vector<RecordedExchange> pushes = pushes_;
  pushes[0].is_empty_push = true;                            // of the async step 0
  pushes[4].is_empty_push = pushes[5].is_empty_push = true;  // all of the BSP step 2
  pushes[6].is_empty_push = true;                            // one of the BSP step 3
  const SliceHistory slice = HistoryOf(pushes);
  const VersionBounds bounds(slice, contract_);
  const VersionBounds all(slice_, contract_);
  EXPECT_EQ(bounds.Most(Step(2), 15), all.Most(Step(2), 15) - 1);
  EXPECT_EQ(bounds.Most(Step(3), 25), all.Most(Step(3), 25) - 2);
  EXPECT_EQ(bounds.Most(Step(4), 35), all.Most(Step(4), 35) - 2);
  EXPECT_EQ(bounds.Least(Step(4), 36), all.Least(Step(4), 36) - 2);
}

}  // namespace
}  // namespace capstan
