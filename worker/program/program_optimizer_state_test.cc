#include "worker/program/program_optimizer_state.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/real_clock.h"
#include "common/exchange/payload.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"

namespace capstan {
namespace {

constexpr absl::Duration kForever = absl::InfiniteDuration();
constexpr absl::Duration kAtOnce = absl::ZeroDuration();
constexpr int kElements = 3;

// One array of one slice. Answers at once, or holds its answers back. Thread-safe.
class OneArray : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    ExchangeReply reply;
    if (const auto* state = std::get_if<OptimizerState>(&request.purpose)) {
      state->values.CopyTo(absl::MakeSpan(values));
      steps = state->steps;
      ++loads;
    } else {
      const auto owned = std::make_shared<std::vector<float>>(values);
      reply.values = Payload(absl::MakeConstSpan(*owned), owned);
      reply.optimizer_steps = steps;
      ++reads;
    }
    held_.emplace_back(std::move(done), std::move(reply));
    if (!holds) Answer();
  }

  void Answer() {
    for (auto& [done, reply] : std::exchange(held_, {})) done(std::move(reply));
  }

  std::vector<float> values = std::vector<float>(kElements);
  uint64_t steps = 0;
  int loads = 0, reads = 0;
  bool holds = false;

 private:
  std::vector<std::pair<ReplyCallback, ExchangeReply>> held_;
};

class ProgramOptimizerStateTest : public testing::Test {
 protected:
  ProgramOptimizerStateTest() {
    v1::TableSpec table;
    table.set_name("w");
    table.add_shape(kElements);
    table.mutable_optimizer()->set_type(v1::OptimizerSpec::MOMENTUM);
    tables_.push_back(table);
    ParameterStore::Options options;
    options.clock = &clock_;
    options.client = &server_;
    options.scheduler = &scheduler_;
    options.tables = tables_;
    options.slice_bytes = 1 << 10;
    store_ = ParameterStore::Create(options).value();
    MakeState(v1::ConsistencySpec::BSP);
  }
  ~ProgramOptimizerStateTest() override {
    server_.Answer();
    store_->CancelPushes();
  }

  void MakeState(v1::ConsistencySpec::Mode mode) {
    v1::JobSpec job;
    job.mutable_consistency()->set_mode(mode);
    steps_ = std::make_unique<ProgramSteps>(&clock_, /*parts=*/1, /*steps=*/0);
    state_ = std::make_unique<ProgramOptimizerState>(&clock_, &tables_, job, steps_.get(),
                                                     /*parts=*/1);
  }
  // Begins at `step`, as a new program would.
  absl::Status Begin(Step step, bool sends = true,
                     std::vector<ProgramOptimizerState::Loaded> loaded = {}) {
    const absl::Status status = state_->Begin(step, sends, std::move(loaded), *store_);
    steps_->BeginTraining(step, *store_);
    return status;
  }
  static ProgramOptimizerState::Loaded State(float value, uint64_t steps) {
    return {TableId(0), /*array=*/0, steps,
            std::make_shared<const std::vector<float>>(kElements, value)};
  }
  absl::Status Read(absl::Duration limit) {
    return state_->Read(TableId(0), /*array=*/0, absl::MakeSpan(read_), &read_steps_, limit);
  }

  RealClock clock_;
  OneArray server_;
  Scheduler scheduler_{/*credit_bytes=*/1 << 20, std::make_unique<PriorityQueue>()};
  std::vector<v1::TableSpec> tables_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<ProgramSteps> steps_;
  std::unique_ptr<ProgramOptimizerState> state_;
  std::vector<float> read_ = std::vector<float>(kElements);
  uint64_t read_steps_ = 0;
};

TEST_F(ProgramOptimizerStateTest, WhatWasLoadedBeforeTheStartIsThereWhenItBegins) {
  ASSERT_TRUE(Begin(Step(0), /*sends=*/true, {State(2, 5)}).ok());
  EXPECT_EQ(server_.loads, 1);
  ASSERT_TRUE(Read(kForever).ok());
  EXPECT_EQ(read_, std::vector<float>(kElements, 2));
  EXPECT_EQ(read_steps_, 5u);
}

TEST_F(ProgramOptimizerStateTest, OnlyTheFirstWorkerOfANewJobSends) {
  ASSERT_TRUE(Begin(Step(0), /*sends=*/false, {State(2, 5)}).ok());
  EXPECT_TRUE(state_->Load(State(3, 6), kForever).ok());
  MakeState(v1::ConsistencySpec::BSP);
  // A process that takes the place of a lost one.
  ASSERT_TRUE(Begin(Step(7), /*sends=*/true, {State(2, 5)}).ok());
  EXPECT_TRUE(state_->Load(State(3, 6), kForever).ok());
  EXPECT_EQ(server_.loads, 0);
}

TEST_F(ProgramOptimizerStateTest, AReadThatRanOutOfTimeGoesOn) {
  ASSERT_TRUE(Begin(Step(0)).ok());
  server_.holds = true;
  EXPECT_TRUE(absl::IsDeadlineExceeded(Read(kAtOnce)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(Read(kAtOnce)));
  server_.Answer();
  EXPECT_TRUE(Read(kForever).ok());
  EXPECT_EQ(server_.reads, 1);
  server_.holds = false;
  EXPECT_TRUE(Read(kForever).ok());
  EXPECT_EQ(server_.reads, 2) << "the answer of a call is not that of the next one";
}

TEST_F(ProgramOptimizerStateTest, AReadThatWasGivenUpIsNotTheAnswerInALaterStep) {
  ASSERT_TRUE(Begin(Step(0)).ok());
  server_.holds = true;
  EXPECT_TRUE(absl::IsDeadlineExceeded(Read(kAtOnce)));
  server_.Answer();
  server_.holds = false;
  server_.values.assign(kElements, 9);
  steps_->BeginTraining(Step(4), *store_);  // the program has gone on
  ASSERT_TRUE(Read(kForever).ok());
  EXPECT_EQ(read_, std::vector<float>(kElements, 9));
}

TEST_F(ProgramOptimizerStateTest, TheLatestLoadCounts) {
  ASSERT_TRUE(Begin(Step(0)).ok());
  server_.holds = true;
  EXPECT_TRUE(absl::IsDeadlineExceeded(state_->Load(State(2, 5), kAtOnce)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(state_->Load(State(2, 5), kAtOnce)));
  EXPECT_EQ(server_.loads, 1) << "the same call goes on";
  server_.Answer();
  server_.holds = false;
  EXPECT_TRUE(state_->Load(State(3, 5), kForever).ok());
  EXPECT_EQ(server_.loads, 2);
  EXPECT_EQ(server_.values, std::vector<float>(kElements, 3));
}

TEST_F(ProgramOptimizerStateTest, WhatDoesNotFitOrComesLateIsRefused) {
  EXPECT_TRUE(absl::IsFailedPrecondition(Read(kForever))) << "before the training";
  ASSERT_TRUE(Begin(Step(0)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      state_->Read(TableId(1), 0, absl::MakeSpan(read_), &read_steps_, kForever)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      state_->Read(TableId(0), 1, absl::MakeSpan(read_), &read_steps_, kForever)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      state_->Read(TableId(0), 0, absl::MakeSpan(read_).subspan(1), &read_steps_, kForever)));
  steps_->BeginTraining(Step(1), *store_);
  EXPECT_TRUE(absl::IsFailedPrecondition(state_->Load(State(2, 5), kForever)));
  MakeState(v1::ConsistencySpec::SSP);
  ASSERT_TRUE(Begin(Step(0)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(state_->Load(State(2, 5), kForever)));
  EXPECT_EQ(server_.loads, 0);
}

TEST_F(ProgramOptimizerStateTest, UnderSspItComesFirstWhereOthersAwaitTheInitialValues) {
  v1::JobSpec job;
  v1::TableSpec table = tables_[0];
  for (const auto mode : {v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
    job.mutable_consistency()->set_mode(mode);
    table.set_initial_from_worker(false);
    job.clear_initial();
    EXPECT_FALSE(ProgramOptimizerState::CheckComesFirst(table, job).ok());
    table.set_initial_from_worker(true);
    EXPECT_TRUE(ProgramOptimizerState::CheckComesFirst(table, job).ok());
    job.set_initial("file");
    EXPECT_FALSE(ProgramOptimizerState::CheckComesFirst(table, job).ok());
  }
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  table.set_initial_from_worker(false);
  EXPECT_TRUE(ProgramOptimizerState::CheckComesFirst(table, job).ok());
}

}  // namespace
}  // namespace capstan
