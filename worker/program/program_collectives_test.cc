#include "worker/program/program_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kAtOnce = absl::ZeroDuration();

// Answers with twice the values of each part, or holds the answers back.
class Doubling : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    Collective part = std::get<Collective>(request.purpose);
    auto values = std::make_shared<std::vector<double>>(part.values.size_bytes() / sizeof(double));
    part.values.CopyTo({reinterpret_cast<uint8_t*>(values->data()), part.values.size_bytes()});
    for (double& value : *values) value *= 2;
    ExchangeReply reply;
    reply.status = status;
    reply.values = Payload(values);
    reply.values.Append(
        {reinterpret_cast<const uint8_t*>(values->data()), part.values.size_bytes()});
    if (part.type == CollectiveType::kJoin) reply.values = Int64(joined);
    parts.push_back(std::move(part));
    if (holds) {
      held.emplace_back(std::move(done), std::move(reply));
    } else {
      done(std::move(reply));
    }
  }
  void Answer() {
    for (auto& [done, reply] : std::exchange(held, {})) done(std::move(reply));
  }
  static Payload Int64(int64_t number) {
    const auto owned = std::make_shared<int64_t>(number);
    Payload payload{owned};
    payload.Append({reinterpret_cast<const uint8_t*>(owned.get()), sizeof(number)});
    return payload;
  }

  std::vector<Collective> parts;
  bool holds = false;
  int64_t joined = -1;
  absl::Status status;
  std::vector<std::pair<ReplyCallback, ExchangeReply>> held;
};

class ProgramCollectivesTest : public testing::Test {
 protected:
  ProgramCollectivesTest() {
    v1::TableSpec table;
    table.set_name("w");
    table.add_shape(1);
    ParameterStore::Options options;
    options.clock = &clock_;
    options.client = &server_;
    options.scheduler = &scheduler_;
    options.sender.worker = WorkerId(1);
    options.tables = {table};
    options.slice_bytes = 1 << 10;
    store_ = ParameterStore::Create(options).value();
    MakeCollectives(v1::ConsistencySpec::BSP);
  }
  ~ProgramCollectivesTest() override {
    server_.Answer();
    store_->CancelPushes();
  }

  void MakeCollectives(v1::ConsistencySpec::Mode mode, int64_t steps = 0, bool stays = false,
                       bool is_replaceable = false) {
    v1::JobSpec job;
    job.set_stay(stays);
    job.mutable_consistency()->set_mode(mode);
    job.mutable_cluster()->set_num_workers(3);
    steps_ = std::make_unique<ProgramSteps>(&clock_, /*parts=*/1, steps);
    collectives_ = std::make_unique<ProgramCollectives>(&clock_, steps_.get(), job, is_replaceable);
    BeginStep(5);
  }
  void BeginStep(int64_t step) { steps_->BeginTraining(Step(step), *store_); }

  absl::Status Run(CollectiveType type, std::vector<double>& values, uint32_t root = 0) {
    return Run({type, CollectiveDtype::kFloat64, WorkerId(root), {values.size()}}, values);
  }
  // Their sum.
  absl::Status RunTensor(std::vector<double>& values, std::vector<uint64_t> shape) {
    return Run({CollectiveType::kSum, CollectiveDtype::kFloat64, WorkerId(0), std::move(shape)},
               values);
  }
  absl::Status Run(const ProgramCollectives::Operation& operation, std::vector<double>& values) {
    return collectives_->Run(
        operation, {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(double)},
        kAtOnce);
  }

  FakeClock clock_;
  Doubling server_;
  Scheduler scheduler_{/*credit_bytes=*/1 << 20, std::make_unique<PriorityQueue>()};
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<ProgramSteps> steps_;
  std::unique_ptr<ProgramCollectives> collectives_;
};

TEST_F(ProgramCollectivesTest, OperationsAreNumberedInEachStep) {
  std::vector<double> values = {1, 2};
  ASSERT_TRUE(Run(CollectiveType::kSum, values).ok());
  EXPECT_THAT(values, ElementsAre(2, 4));
  ASSERT_TRUE(Run(CollectiveType::kMax, values).ok());
  BeginStep(6);
  ASSERT_TRUE(Run(CollectiveType::kMean, values).ok());
  ASSERT_EQ(server_.parts.size(), 3u);
  EXPECT_EQ(server_.parts[0].step, Step(5));
  EXPECT_EQ(server_.parts[0].number, 0u);
  EXPECT_THAT(server_.parts[0].shape, ElementsAre(2));
  EXPECT_EQ(server_.parts[1].number, 1u);
  EXPECT_EQ(server_.parts[1].type, CollectiveType::kMax);
  EXPECT_EQ(server_.parts[2].step, Step(6));
  EXPECT_EQ(server_.parts[2].number, 0u);
}

TEST_F(ProgramCollectivesTest, TheSameCallGoesOnWhenTheTimeHasPassed) {
  server_.holds = true;
  std::vector<double> values = {1};
  EXPECT_TRUE(absl::IsDeadlineExceeded(Run(CollectiveType::kSum, values)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(CollectiveType::kMax, values)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(Run(CollectiveType::kSum, values)));
  server_.Answer();
  EXPECT_TRUE(Run(CollectiveType::kSum, values).ok());
  EXPECT_THAT(values, ElementsAre(2));
  EXPECT_EQ(server_.parts.size(), 1u);
}

TEST_F(ProgramCollectivesTest, TheShapeIsSentAndAnotherOneIsAnotherCall) {
  server_.holds = true;
  std::vector<double> values(6, 1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(RunTensor(values, {2, 3})));
  EXPECT_THAT(server_.parts[0].shape, ElementsAre(2, 3));
  EXPECT_TRUE(absl::IsFailedPrecondition(RunTensor(values, {3, 2})));
  server_.Answer();
  EXPECT_TRUE(RunTensor(values, {2, 3}).ok());
  EXPECT_THAT(values, Each(2));
}

TEST_F(ProgramCollectivesTest, OnlyTheRootSendsItsValues) {
  std::vector<double> values = {3};
  ASSERT_TRUE(Run(CollectiveType::kBroadcast, values, /*root=*/1).ok());
  EXPECT_THAT(values, ElementsAre(6));
  server_.holds = true;
  EXPECT_TRUE(absl::IsDeadlineExceeded(Run(CollectiveType::kBroadcast, values, /*root=*/2)));
  EXPECT_EQ(server_.parts[0].values.size_bytes(), 8u);
  EXPECT_EQ(server_.parts[1].values.size_bytes(), 0u);
  EXPECT_THAT(server_.parts[1].shape, ElementsAre(1));
}

TEST_F(ProgramCollectivesTest, WrongCallsLeaveTheJobUnchanged) {
  std::vector<double> large(kMaxCollectiveBytes / sizeof(double) + 1);
  EXPECT_THAT(std::string(Run(CollectiveType::kSum, large).message()),
              HasSubstr("at most 131072 elements, 1 MiB, got 131073"));
  std::vector<double> values = {1};
  EXPECT_THAT(std::string(RunTensor(values, {2}).message()),
              HasSubstr("expected 16 bytes of values, got 8"));
  EXPECT_THAT(std::string(RunTensor(values, std::vector<uint64_t>(65, 1)).message()),
              HasSubstr("at most 64 dimensions, got 65"));
  EXPECT_THAT(std::string(Run(CollectiveType::kBroadcast, values, /*root=*/3).message()),
              HasSubstr("rank below 3, got 3"));
  EXPECT_TRUE(server_.parts.empty());
  EXPECT_TRUE(Run(CollectiveType::kSum, values).ok());
  MakeCollectives(v1::ConsistencySpec::ASYNC);
  EXPECT_THAT(std::string(Run(CollectiveType::kSum, values).message()),
              HasSubstr("need --consistency=bsp"));
}

TEST_F(ProgramCollectivesTest, ARefusalFailsTheJobWithItsText) {
  server_.status = absl::InvalidArgumentError("worker 0 does another operation");
  std::vector<double> values = {1};
  EXPECT_TRUE(absl::IsDeadlineExceeded(Run(CollectiveType::kSum, values)));
  clock_.Advance(absl::Seconds(10));
  const absl::Status status = Run(CollectiveType::kSum, values);
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker 0 does another operation"));
}

TEST_F(ProgramCollectivesTest, WhoEntersAfterTheOthersLastStepLeaves) {
  server_.status = absl::OutOfRangeError("worker 0 has done all its steps");
  steps_->EnterLate();
  std::vector<double> values = {1};
  EXPECT_TRUE(absl::IsDeadlineExceeded(Run(CollectiveType::kSum, values))) << "it has not left yet";
  steps_->SetOutcome(absl::CancelledError("has left after the others' last step"));
  const absl::Status left = Run(CollectiveType::kSum, values);
  EXPECT_TRUE(absl::IsCancelled(left)) << left;
  EXPECT_THAT(std::string(left.message()), HasSubstr("after the others' last step"));
  EXPECT_TRUE(steps_->came_after_end());
}

TEST_F(ProgramCollectivesTest, WhoDidNotEnterLateFailsBeyondTheOthersLastStep) {
  server_.status = absl::OutOfRangeError("worker 0 has done all its steps");
  std::vector<double> values = {1};
  EXPECT_TRUE(absl::IsDeadlineExceeded(Run(CollectiveType::kSum, values)));
  clock_.Advance(absl::Seconds(10));
  const absl::Status status = Run(CollectiveType::kSum, values);
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker 0 has done all its steps"));
  EXPECT_FALSE(steps_->came_after_end());
}

TEST_F(ProgramCollectivesTest, AReplaceableProgramHearsThatItHasLeftAlsoBetweenTwoSteps) {
  MakeCollectives(v1::ConsistencySpec::BSP, /*steps=*/9, /*stays=*/false, /*is_replaceable=*/true);
  std::vector<double> values = {1};
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(CollectiveType::kSum, values))) << "between two steps";
  steps_->Leave();
  ASSERT_TRUE(steps_->EndTraining().ok());
  steps_->SetOutcome(absl::CancelledError("has left the job"));
  const absl::Status left = Run(CollectiveType::kSum, values);
  EXPECT_TRUE(absl::IsCancelled(left)) << left;
}

TEST_F(ProgramCollectivesTest, AJoinEndsWithTheNumberThatAllGoOnWith) {
  EXPECT_EQ(collectives_->Join(kAtOnce).value(), true);
  BeginStep(6);
  server_.joined = 7;
  EXPECT_EQ(collectives_->Join(kAtOnce).value(), false);
  std::vector<double> values = {1};
  ASSERT_TRUE(Run(CollectiveType::kSum, values).ok());
  EXPECT_EQ(server_.parts[2].number, 7u);
  EXPECT_EQ(server_.parts[2].step, Step(6));
}

TEST_F(ProgramCollectivesTest, WorkersThatAgreeMayEndBeforeTheirAnnouncedSteps) {
  MakeCollectives(v1::ConsistencySpec::BSP, /*steps=*/9);
  EXPECT_FALSE(collectives_->Stop(false, kAtOnce).value());
  const absl::Status early = steps_->End();
  EXPECT_TRUE(absl::IsFailedPrecondition(early)) << early;
  EXPECT_THAT(std::string(early.message()), HasSubstr("5 of the 9 steps"));
  EXPECT_TRUE(collectives_->Stop(true, kAtOnce).value());
  EXPECT_EQ(server_.parts.back().type, CollectiveType::kMax);
  EXPECT_TRUE(steps_->End().ok());

  MakeCollectives(v1::ConsistencySpec::BSP, /*steps=*/9);
  server_.joined = 1;
  EXPECT_FALSE(collectives_->Join(kAtOnce).value());
  EXPECT_TRUE(steps_->End().ok()) << "all have joined";
}

TEST_F(ProgramCollectivesTest, WorkersOfAJobThatStaysDoTheirWholeRound) {
  MakeCollectives(v1::ConsistencySpec::BSP, /*steps=*/9, /*stays=*/true);
  EXPECT_TRUE(collectives_->Stop(true, kAtOnce).value());
  EXPECT_TRUE(absl::IsFailedPrecondition(steps_->End()));
}

TEST_F(ProgramCollectivesTest, AWorkerThatComesAfterAnEarlyEndOfTheOthersEndsThere) {
  MakeCollectives(v1::ConsistencySpec::BSP, /*steps=*/9);
  steps_->LimitSteps(5);
  EXPECT_TRUE(steps_->End().ok());
}

TEST_F(ProgramCollectivesTest, ALongWaitEndsTheStepsOperationsOnce) {
  const auto wait = [this](absl::Duration passed) {
    collectives_->NoteWaiting(Step(6), *store_);
    clock_.Advance(passed);
    collectives_->NoteWaiting(Step(6), *store_);
  };
  wait(absl::Milliseconds(900));
  EXPECT_TRUE(server_.parts.empty());
  wait(absl::Milliseconds(200));
  ASSERT_EQ(server_.parts.size(), 1u);
  EXPECT_EQ(server_.parts[0].type, CollectiveType::kEndOfStep);
  EXPECT_EQ(server_.parts[0].step, Step(5));
  wait(absl::Seconds(10));
  EXPECT_EQ(server_.parts.size(), 1u);
  collectives_->NoteEnd(*store_);
  EXPECT_EQ(server_.parts[1].step, kLargestStep);
}

}  // namespace
}  // namespace capstan
