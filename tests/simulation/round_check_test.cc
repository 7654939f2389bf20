#include "tests/simulation/round_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr size_t kElements = 3;
const SliceKey kSlice{TableId(0), SliceIndex(0)};

Payload PayloadOf(const std::vector<float>& values) {
  const auto owned = std::make_shared<std::vector<float>>(values);
  return Payload(absl::MakeConstSpan(*owned), owned);
}

// The values at a step are all the step's number, and 1.
std::vector<float> ValuesAt(Step step) {
  return std::vector<float>(kElements, static_cast<float>(step.value() + 1));
}

class StepServer : public ParameterEndpoint {
 public:
  explicit StepServer(const bool* is_silent) : is_silent_(*is_silent) {}
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    if (is_silent_) return;
    ExchangeReply reply;
    reply.values = PayloadOf(ValuesAt(PullOf(request)->step));
    done(std::move(reply));
  }

 private:
  const bool& is_silent_;
};

// A worker with rounds of two local steps, which takes new values `delay` steps later.
class RoundCheckTest : public testing::Test {
 protected:
  void Begin(uint32_t delay) {
    life_.steps = 3;
    life_.tables.resize(1);
    life_.tables[0].add_shape(kElements);
    life_.job.mutable_cluster()->set_num_workers(1);
    life_.job.mutable_scheduler()->set_slice_bytes(kElements * sizeof(float));
    v1::LocalSteps& rounds = life_.program.emplace().local_steps.emplace();
    rounds.set_sync_every(2);
    rounds.set_fragments(1);
    rounds.set_fragment_sync_delay(delay);
    check_.BeginLife(life_);
    worker_ = check_.Watch(std::make_unique<StepServer>(&is_silent_));
    Exchange({std::nullopt, StepPull{Step(0)}});
    local_.assign(kElements, {1, 0});
  }
  void Exchange(DenseStep step) {
    Sender sender;
    sender.incarnation = Incarnation(7);
    worker_->Exchange(
        {sender, Epoch(), kSlice, std::move(step)}, [] {}, [](ExchangeReply) {});
  }
  void StepLocally(Step round, int64_t number) {
    for (size_t i = 0; i < kElements; ++i) {
      UserProgram::StepLocally(WorkerId(0), round, number, kSlice.table, i, local_[i]);
    }
  }
  // base - local.
  void Push(Step round, Step base) {
    std::vector<float> gradient = ValuesAt(base);
    for (size_t i = 0; i < kElements; ++i) gradient[i] -= local_[i].value;
    StepPush push;
    push.step = round;
    push.gradient = {PayloadOf(gradient), CodecType::kFloat32};
    Exchange({std::move(push), StepPull{round + 1}});
  }

  Scenario life_;
  RoundCheck check_;
  bool is_silent_ = false;
  std::unique_ptr<ParameterEndpoint> worker_;
  std::vector<LocalElement> local_;
};

TEST_F(RoundCheckTest, ValuesMinusLocalIsRight) {
  Begin(/*delay=*/0);
  for (const Step round : {Step(0), Step(1)}) {
    for (size_t i = 0; i < kElements; ++i) local_[i].value = ValuesAt(round)[i];
    for (const int64_t number : {1, 2}) StepLocally(round, number);
    Push(round, /*base=*/round);
  }
  EXPECT_EQ(check_.wrong(), "");
  EXPECT_EQ(check_.checked_pushes(), 2);
}

TEST_F(RoundCheckTest, WhatWasDoneBeforeLateValuesIsKept) {
  Begin(/*delay=*/1);
  for (const int64_t number : {1, 2}) StepLocally(Step(0), number);
  Push(Step(0), /*base=*/Step(0));
  const std::vector<LocalElement> pushed = local_;
  StepLocally(Step(1), 1);
  for (size_t i = 0; i < kElements; ++i) {
    local_[i].value = ValuesAt(Step(1))[i] + (local_[i].value - pushed[i].value);
  }
  StepLocally(Step(1), 2);
  Push(Step(1), /*base=*/Step(1));
  EXPECT_EQ(check_.wrong(), "");
}

TEST_F(RoundCheckTest, ADifferenceToOtherValuesIsWrong) {
  Begin(/*delay=*/0);
  for (const int64_t number : {1, 2}) StepLocally(Step(0), number);
  Push(Step(0), /*base=*/Step(1));
  EXPECT_THAT(check_.wrong(), HasSubstr("local steps: worker 0 pushes round 0 of slice 0"));
}

TEST_F(RoundCheckTest, APushOfTheNextRoundIsWrong) {
  Begin(/*delay=*/0);
  for (const int64_t number : {1, 2}) StepLocally(Step(0), number);
  Push(Step(1), /*base=*/Step(0));
  EXPECT_THAT(check_.wrong(), HasSubstr("before it has the values of this round"));
}

TEST_F(RoundCheckTest, FinalValuesArePulledAfterAllAnswers) {
  Begin(/*delay=*/0);
  life_.steps = 1;
  for (const int64_t number : {1, 2}) StepLocally(Step(0), number);
  Push(Step(0), /*base=*/Step(0));
  Exchange({std::nullopt, StepPull{Step(1)}});
  EXPECT_EQ(check_.missing_push(), "");
  is_silent_ = true;
  Push(Step(1), /*base=*/Step(0));
  Exchange({std::nullopt, StepPull{Step(1)}});
  EXPECT_THAT(check_.missing_push(), HasSubstr("before a push is answered"));
  check_.BeginLife(life_);
  EXPECT_EQ(check_.missing_push(), "");
}

TEST_F(RoundCheckTest, AnEmptyPushIsWrong) {
  Begin(/*delay=*/0);
  StepPush push;
  push.step = Step(0);
  Exchange({std::move(push), StepPull{Step(1)}});
  EXPECT_THAT(check_.wrong(), HasSubstr("without a gradient"));
}

}  // namespace
}  // namespace capstan
