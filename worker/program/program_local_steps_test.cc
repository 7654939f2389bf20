// A program each of whose steps is a round of local steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/real_clock.h"
#include "worker/engine/training_rig.h"
#include "worker/program/program_engine.h"
#include "worker/runtime/training_loop.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kForever = absl::InfiniteDuration();
constexpr int kElements = 3;

v1::LocalSteps TenSteps() {
  v1::LocalSteps local_steps;
  local_steps.set_sync_every(10);
  local_steps.set_fragments(1);
  return local_steps;
}

// A training loop on a thread of its own, as in a worker; the test is the program.
class ProgramLocalStepsTest : public testing::Test {
 protected:
  void Start(std::optional<v1::LocalSteps> local_steps,
             v1::ConsistencySpec::Mode mode = v1::ConsistencySpec::BSP) {
    ProgramEngine::Options options;
    options.clock = &clock_;
    options.tables.resize(1);
    options.tables[0].set_name("w");
    options.tables[0].add_shape(kElements);
    options.initial.resize(1);
    options.job.mutable_cluster()->set_num_workers(1);
    options.job.mutable_consistency()->set_mode(mode);
    options.local_steps = local_steps;
    engine_ = std::make_unique<ProgramEngine>(options);
    rig_ = TrainingRig::Create(engine_.get(), &clock_, TrainingRig::Options()).value();
    // The rig has pulled. A slice has one exchange at a time.
    ASSERT_TRUE(rig_->store().WaitForAll().ok());
    TrainingLoop::Options loop;
    loop.clock = &clock_;
    loop.engine = engine_.get();
    loop.store = &rig_->store();
    loop_ = std::make_unique<TrainingLoop>(loop);
    thread_ = std::thread([this] { status_ = loop_->Run(); });
    ASSERT_TRUE(engine_->steps().AwaitStart(kForever).ok());
  }

  void TearDown() override {
    if (!thread_.joinable()) return;
    engine_->steps().Fail(absl::InternalError("the test is over"));
    thread_.join();
  }

  // A round whose local steps have led away from the values by this much.
  void DoRound(float difference) {
    ASSERT_TRUE(engine_->Wait(0, kForever).ok());
    for (float& value : engine_->gradients()[0]) value = difference;
    ASSERT_TRUE(engine_->Push(0, kForever).ok());
  }
  void EndRound() { ASSERT_TRUE(engine_->EndStep(/*loss=*/1, /*samples=*/4, kForever).ok()); }
  // The worker's progress after the last round.
  v1::Progress End() {
    EXPECT_TRUE(engine_->End().ok());
    thread_.join();
    EXPECT_TRUE(status_.ok()) << status_;
    return loop_->progress();
  }

  RealClock clock_;
  std::unique_ptr<ProgramEngine> engine_;
  std::unique_ptr<TrainingRig> rig_;
  std::unique_ptr<TrainingLoop> loop_;
  absl::Status status_;
  std::thread thread_;
};

TEST_F(ProgramLocalStepsTest, TheProgressHasTheLocalStepsAndTheLatestDrift) {
  Start(TenSteps());
  for (const double drift : {0.5, 0.25}) {
    DoRound(1);
    ASSERT_TRUE(engine_->NoteRound(/*local_steps=*/10, drift).ok());
    EndRound();
  }
  const v1::Progress progress = End();
  EXPECT_EQ(progress.steps_done(), 2);
  EXPECT_EQ(progress.local_steps(), 20u);
  EXPECT_EQ(progress.drift(), 0.25);
}

TEST_F(ProgramLocalStepsTest, TheLatestNoteOfARoundCountsAndARoundWithoutOneAddsNothing) {
  Start(TenSteps());
  DoRound(1);
  ASSERT_TRUE(engine_->NoteRound(/*local_steps=*/3, 0.75).ok());
  ASSERT_TRUE(engine_->NoteRound(/*local_steps=*/7, 0.5).ok());
  EndRound();
  DoRound(1);
  EndRound();
  const v1::Progress progress = End();
  EXPECT_EQ(progress.local_steps(), 7u);
  EXPECT_EQ(progress.drift(), 0.5);
}

TEST_F(ProgramLocalStepsTest, ADriftThatIsNotKnownIsNotShown) {
  Start(TenSteps());
  DoRound(1);
  ASSERT_TRUE(engine_->NoteRound(/*local_steps=*/10, std::nan("")).ok());
  EndRound();
  EXPECT_EQ(End().drift(), 0);
}

TEST_F(ProgramLocalStepsTest, TheCoordinatorHearsOfThem) {
  Start(TenSteps());
  ASSERT_NE(engine_->local_steps(), nullptr);
  EXPECT_EQ(engine_->local_steps()->sync_every(), 10);
}

TEST_F(ProgramLocalStepsTest, WrongNotesAreRefused) {
  Start(TenSteps());
  for (const absl::Status& status : {engine_->NoteRound(-1, 0.5), engine_->NoteRound(10, -0.5)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("expected 0 or more"));
  }
}

TEST_F(ProgramLocalStepsTest, AJobWithoutLocalStepsHasNoRounds) {
  Start(std::nullopt);
  EXPECT_EQ(engine_->local_steps(), nullptr);
  const absl::Status status = engine_->NoteRound(10, 0.5);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("capstan_set_local_steps"));
}

TEST_F(ProgramLocalStepsTest, MuchMomentumIsSetUnderBspAlone) {
  Start(TenSteps(), v1::ConsistencySpec::ASYNC);
  const absl::Status status = engine_->SetMomentum(std::nullopt, 0.9);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("at most 0.5 with local steps"));
  EXPECT_TRUE(engine_->SetMomentum(std::nullopt, 0.5).ok());
}

TEST_F(ProgramLocalStepsTest, UnderBspAnyMomentumIsSet) {
  Start(TenSteps());
  EXPECT_TRUE(engine_->SetMomentum(std::nullopt, 0.9).ok());
}

}  // namespace
}  // namespace capstan
