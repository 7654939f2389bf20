#include "worker/program/program_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/base/mutex.h"
#include "common/base/real_clock.h"
#include "worker/engine/training_rig.h"
#include "worker/runtime/training_loop.h"

namespace capstan {
namespace {

constexpr absl::Duration kForever = absl::InfiniteDuration();
constexpr absl::Duration kShort = absl::Milliseconds(20);
constexpr float kLearningRate = 0.5f;
constexpr int kElements = 3;  // of each table

std::vector<v1::TableSpec> TwoTables() {
  std::vector<v1::TableSpec> tables(2);
  for (uint32_t i = 0; i < 2; ++i) {
    tables[i].set_name("w" + std::to_string(i));
    tables[i].add_shape(kElements);
    tables[i].set_layer(i);
  }
  return tables;
}

// Throws on demand, as if there were no memory. Also holds callbacks on demand.
class ThrowingClock : public Clock {
 public:
  // The `number`-th of the next calls of Now on this thread throws.
  void ThrowAt(int number) {
    thread_ = std::this_thread::get_id();
    calls_left_ = number;
  }

  absl::Time Now() const override {
    if (calls_left_ > 0 && std::this_thread::get_id() == thread_ && --calls_left_ == 0) {
      throw std::bad_alloc();
    }
    return clock_.Now();
  }
  TimerId RunAt(absl::Time when, absl::AnyInvocable<void()> callback) override {
    MutexLock lock(&mu_);
    if (!holds_) return clock_.RunAt(when, std::move(callback));
    held_.push_back(std::move(callback));
    return TimerId();
  }
  // Callbacks wait from now on. So do the replies of a rig's server.
  void Hold() {
    MutexLock lock(&mu_);
    holds_ = true;
  }
  // Later callbacks do not wait. Waits until `count` do, and returns them.
  std::vector<absl::AnyInvocable<void()>> TakeHeld(size_t count) {
    MutexLock lock(&mu_);
    while (held_.size() < count) {
      mu_.Unlock();
      std::this_thread::yield();
      mu_.Lock();
    }
    holds_ = false;
    return std::exchange(held_, {});
  }
  bool Cancel(TimerId timer) override { return clock_.Cancel(timer); }
  bool WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (std::this_thread::get_id() == maker_) ++waits_of_maker_;
    return clock_.WaitUntil(mutex, condition, deadline);
  }
  // The number of waits of the thread that has made the clock.
  int waits_of_maker() const { return waits_of_maker_; }

 private:
  const std::thread::id maker_ = std::this_thread::get_id();
  std::atomic<int> waits_of_maker_ = 0;
  RealClock clock_;
  Mutex mu_;
  bool holds_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mu_);
  std::thread::id thread_;  // set before calls_left_
  mutable std::atomic<int> calls_left_ = 0;
};

// A training loop on a thread of its own, as in a worker; the test is the program.
class ProgramEngineTest : public testing::Test {
 protected:
  void Start(int64_t steps, Step first_step = Step(0), bool enters_late = false,
             int64_t others_have = 0) {
    loop_.reset();
    rig_.reset();  // before the engine
    ProgramEngine::Options options;
    options.clock = &clock_;
    options.tables = tables_;
    options.initial.resize(2);
    options.job.mutable_cluster()->set_num_workers(1);
    options.job.mutable_model()->set_type(v1::ModelSpec::PROGRAM);
    options.steps = steps;
    options.is_replaceable = is_replaceable_;
    options.is_part = is_part_;
    if (has_checkpoints_) options.job.mutable_checkpoint()->set_dir("unused");
    engine_ = std::make_unique<ProgramEngine>(options);
    if (enters_late) engine_->EnterLate();
    if (others_have > 0) engine_->LimitSteps(others_have);
    TrainingRig::Options rig;
    rig.learning_rate = kLearningRate;
    rig.has_program_state = has_checkpoints_;
    rig_ = TrainingRig::Create(engine_.get(), &clock_, rig).value();
    // The rig has pulled. A slice has one exchange at a time.
    ASSERT_TRUE(rig_->store().WaitForAll().ok());
    TrainingLoop::Options loop;
    loop.clock = &clock_;
    loop.engine = engine_.get();
    loop.store = &rig_->store();
    loop.worker = WorkerId(1);
    loop.first_step = first_step;
    loop.steps = steps;
    loop.must_stop = [this] { return is_asked_.load(); };
    loop_ = std::make_unique<TrainingLoop>(loop);
    thread_ = std::thread([this] { loop_status_ = loop_->Run(); });
    ASSERT_TRUE(others_have > 0 || engine_->steps().AwaitStart(kForever).ok());
  }

  // Ends the loop, whatever a test left open.
  void TearDown() override {
    if (!thread_.joinable()) return;
    engine_->steps().Fail(absl::InternalError("the test is over"));
    thread_.join();
  }

  void Join() { thread_.join(); }
  // The program has no further step.
  void End() {
    ASSERT_TRUE(engine_->End().ok());
    Join();
  }

  void Fill(int table, float gradient) {
    for (float& value : engine_->gradients()[table]) value = gradient;
  }
  absl::Status Step1(float gradient, size_t samples = 4) {
    for (const int layer : {1, 0}) {
      if (absl::Status status = engine_->Wait(layer, kForever); !status.ok()) return status;
      Fill(layer, gradient);
      if (absl::Status status = engine_->Push(layer, kForever); !status.ok()) return status;
    }
    return engine_->EndStep(/*loss=*/gradient, samples, kForever);
  }
  std::vector<float> Values(int table) {
    EXPECT_TRUE(engine_->Wait(table, kForever).ok());
    return {engine_->values()[table].begin(), engine_->values()[table].end()};
  }

  ThrowingClock clock_;
  std::vector<v1::TableSpec> tables_ = TwoTables();
  bool is_replaceable_ = false;
  bool is_part_ = false;
  bool has_checkpoints_ = false;
  std::unique_ptr<ProgramEngine> engine_;
  std::unique_ptr<TrainingRig> rig_;
  std::unique_ptr<TrainingLoop> loop_;
  std::atomic<bool> is_asked_ = false;
  absl::Status loop_status_;
  std::thread thread_;
};

TEST_F(ProgramEngineTest, OnlyTheProcessThatIsTheWorkerDecidesToEndEarly) {
  for (const bool is_part : {false, true}) {
    is_part_ = is_part;
    Start(/*steps=*/3);
    ASSERT_TRUE(Step1(1).ok());
    EXPECT_EQ(engine_->End().ok(), is_part);
    EXPECT_EQ(engine_->has_program_state(), !is_part);
    TearDown();
  }
}

TEST_F(ProgramEngineTest, EachStepMovesTheValuesByTheProgramsGradient) {
  Start(/*steps=*/3);
  const std::vector<float> first = Values(0);
  for (const float gradient : {1.0f, 2.0f, 4.0f}) ASSERT_TRUE(Step1(gradient).ok());
  End();
  ASSERT_TRUE(loop_status_.ok()) << loop_status_;
  EXPECT_TRUE(loop_->has_finished());
  const std::vector<float> last = Values(0);
  for (int i = 0; i < kElements; ++i) EXPECT_FLOAT_EQ(last[i], first[i] - kLearningRate * 7);
}

TEST_F(ProgramEngineTest, AWaitForAllLayersEndsWhenAllHaveTheirValues) {
  Start(/*steps=*/2);
  const std::vector<float> first[] = {Values(0), Values(1)};
  ASSERT_TRUE(Step1(1).ok());
  ASSERT_TRUE(engine_->Wait(-1, kForever).ok());
  for (const int table : {0, 1}) {
    EXPECT_FLOAT_EQ(engine_->values()[table][0], first[table][0] - kLearningRate);
  }
}

TEST_F(ProgramEngineTest, TheProgressHasTheLossAndTheSamplesOfTheProgram) {
  Start(/*steps=*/2);
  ASSERT_TRUE(Step1(1, /*samples=*/10).ok());
  ASSERT_TRUE(Step1(4, /*samples=*/20).ok());
  End();
  EXPECT_EQ(loop_->progress().samples(), 30u);
  EXPECT_DOUBLE_EQ(loop_->progress().loss(), 3);
  EXPECT_EQ(loop_->progress().steps_done(), 2);
  EXPECT_EQ(loop_->progress().steps_total(), 2);
}

TEST_F(ProgramEngineTest, StepsWithoutAKnownEndEndWhenTheProgramSaysSo) {
  Start(/*steps=*/0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Step1(1).ok());
  EXPECT_EQ(loop_->progress().steps_total(), 0) << "nobody knows it yet";
  ASSERT_TRUE(engine_->End().ok());
  Join();
  EXPECT_TRUE(loop_status_.ok()) << loop_status_;
  EXPECT_TRUE(loop_->has_finished());
  EXPECT_EQ(loop_->progress().steps_total(), 5);
  EXPECT_EQ(loop_->progress().steps_done(), 5);
}

TEST_F(ProgramEngineTest, ALayerWithoutAPushKeepsItsValues) {
  Start(/*steps=*/1);
  const std::vector<float> unused = Values(0), used = Values(1);
  Fill(0, 100);  // never pushed
  Fill(1, 1);
  ASSERT_TRUE(engine_->Push(1, kForever).ok());
  ASSERT_TRUE(engine_->EndStep(0, 1, kForever).ok());
  End();
  EXPECT_EQ(Values(0), unused);
  EXPECT_FLOAT_EQ(Values(1)[0], used[0] - kLearningRate);
}

// Otherwise a process in this one's place would find slices two steps apart.
TEST_F(ProgramEngineTest, OnlyAReplaceableProgramWaitsForTheStepBeforeInAllLayers) {
  for (const bool is_replaceable : {false, true}) {
    is_replaceable_ = is_replaceable;
    Start(/*steps=*/2);
    EXPECT_EQ(engine_->is_replaceable(), is_replaceable);
    clock_.Hold();
    ASSERT_TRUE(engine_->Push(1, kForever).ok());
    std::vector<absl::AnyInvocable<void()>> replies = clock_.TakeHeld(1);
    EXPECT_TRUE(engine_->Push(0, kForever).ok()) << "of the same step";
    EXPECT_TRUE(engine_->EndStep(0, 1, kForever).ok());
    EXPECT_TRUE(engine_->Wait(0, kForever).ok());
    const absl::Status early = engine_->Push(0, is_replaceable ? kShort : kForever);
    EXPECT_EQ(early.ok(), !is_replaceable) << early;
    EXPECT_EQ(absl::IsDeadlineExceeded(early), is_replaceable) << early;
    for (auto& reply : replies) reply();
    EXPECT_EQ(engine_->Push(0, kForever).ok(), is_replaceable) << "the other one has pushed it";
    ASSERT_TRUE(engine_->EndStep(0, 1, kForever).ok());
    End();
    EXPECT_TRUE(loop_status_.ok()) << loop_status_;
  }
}

TEST_F(ProgramEngineTest, OnlyAReplaceableProgramWaitsForTheStepBeforeInSparseTablesToo) {
  tables_[1].clear_shape();
  tables_[1].mutable_sparse()->set_dim(2);
  const auto push_rows = [this](absl::Duration limit) {
    return engine_->rows().Push(TableId(1), {}, {}, {}, limit);
  };
  for (const bool is_replaceable : {false, true}) {
    for (const bool are_rows_late : {false, true}) {
      SCOPED_TRACE(testing::Message() << is_replaceable << are_rows_late);
      is_replaceable_ = is_replaceable;
      Start(/*steps=*/2);
      clock_.Hold();
      ASSERT_TRUE((are_rows_late ? push_rows(kForever) : engine_->Push(0, kForever)).ok());
      std::vector<absl::AnyInvocable<void()>> replies = clock_.TakeHeld(1);
      EXPECT_TRUE(engine_->EndStep(0, 1, kForever).ok());
      const absl::Duration limit = is_replaceable ? kShort : kForever;
      const absl::Status early = are_rows_late ? engine_->Push(0, limit) : push_rows(limit);
      EXPECT_EQ(early.ok(), !is_replaceable) << early;
      EXPECT_EQ(absl::IsDeadlineExceeded(early), is_replaceable) << early;
      for (auto& reply : replies) reply();
      ASSERT_TRUE(engine_->EndStep(0, 1, kForever).ok());
      End();
      EXPECT_TRUE(loop_status_.ok()) << loop_status_;
    }
  }
}

// So another process in its place does not do its latest step again.
TEST_F(ProgramEngineTest, AReplaceableProgramThatIsAskedToEndTellsTheEndOfItsStep) {
  for (const bool is_replaceable : {false, true}) {
    is_replaceable_ = is_replaceable;
    is_asked_ = false;
    Start(/*steps=*/5);
    ASSERT_TRUE(Step1(1).ok());
    ASSERT_TRUE(Step1(1).ok());
    Values(0), Values(1);  // all replies are there
    const int64_t exchanges = rig_->exchanges();
    is_asked_ = true;
    engine_->steps().Leave();
    Join();
    EXPECT_TRUE(loop_status_.ok()) << loop_status_;
    EXPECT_EQ(rig_->exchanges() - exchanges, is_replaceable ? 1 : 0);
  }
}

TEST_F(ProgramEngineTest, ALayerIsPushedOnceAStep) {
  Start(/*steps=*/1);
  ASSERT_TRUE(engine_->Push(1, kForever).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->Push(1, kForever)));
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->Push(2, kForever)));
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->Wait(2, kForever)));
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->rows().Pull(TableId(0), {1}, kForever)));
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->rows().Push(TableId(9), {}, {}, {}, kForever)));
}

TEST_F(ProgramEngineTest, AfterTheAnnouncedStepsThereIsNoOther) {
  Start(/*steps=*/1);
  ASSERT_TRUE(Step1(1).ok());
  for (const bool has_ended : {false, true}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(engine_->Push(0, kForever))) << has_ended;
    EXPECT_TRUE(absl::IsFailedPrecondition(engine_->EndStep(0, 0, kForever))) << has_ended;
    if (!has_ended) End();
  }
}

TEST_F(ProgramEngineTest, TheServersAreThereUntilTheProgramHasEnded) {
  Start(/*steps=*/1);
  ASSERT_TRUE(Step1(1).ok());
  ASSERT_TRUE(engine_->Wait(-1, kForever).ok());
  // The others hear that the steps are done once nothing can follow.
  EXPECT_FALSE(loop_->has_finished());
  ProgramSteps::StoreLease store = engine_->steps().LeaseStore().value();
  ASSERT_NE(store, nullptr);
  store->PullAllExactly(Step(1));
  EXPECT_TRUE(store->WaitForAll().ok());
  store.reset();
  End();
  EXPECT_TRUE(loop_status_.ok()) << loop_status_;
  EXPECT_TRUE(loop_->has_finished());
  EXPECT_EQ(engine_->steps().LeaseStore().value(), nullptr);
}

TEST_F(ProgramEngineTest, AJobThatGoesOnAfterItsLastStepStartsWithoutOne) {
  Start(/*steps=*/3, /*first_step=*/Step(3));
  EXPECT_TRUE(engine_->Wait(-1, kForever).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->Push(0, kForever)));
  End();
  EXPECT_TRUE(loop_status_.ok()) << loop_status_;
}

TEST_F(ProgramEngineTest, AWorkerMayLeaveAfterItsLastStep) {
  Start(/*steps=*/1);
  ASSERT_TRUE(Step1(1).ok());
  is_asked_ = true;
  engine_->steps().Leave();
  Join();
  EXPECT_TRUE(loop_status_.ok()) << loop_status_;
}

// The last checkpoint waits for its state of the end.
TEST_F(ProgramEngineTest, AWorkerWithAStateLeavesAfterItsLastStepOnceTheProgramHasEndedOrIsClosed) {
  has_checkpoints_ = true;
  for (const bool ends : {true, false}) {
    is_asked_ = false;
    Start(/*steps=*/1);
    ASSERT_TRUE(engine_->worker_state().Put("piece", {1, 2, 3}).ok());
    ASSERT_TRUE(Step1(1).ok());
    Values(0), Values(1);  // all replies are there
    const int64_t exchanges = rig_->exchanges();
    is_asked_ = true;
    engine_->steps().Leave();
    EXPECT_TRUE(absl::IsFailedPrecondition(engine_->Push(0, kForever))) << "all steps are done";
    EXPECT_FALSE(engine_->steps().AwaitOutcome(kShort));
    EXPECT_FALSE(loop_->has_finished()) << "the program may still put other pieces";
    ends ? End() : engine_->steps().ReportNothing();
    if (!ends) Join();
    EXPECT_TRUE(loop_status_.ok()) << loop_status_;
    EXPECT_TRUE(loop_->has_finished());
    EXPECT_EQ(rig_->exchanges() - exchanges, ends ? 1 : 0);
  }
}

// The servers' parameters are those that the program sends.
TEST_F(ProgramEngineTest, AWorkerThatKeepsATableLeavesAfterItsLastStepOnceTheProgramIsClosed) {
  tables_[0].set_replies_mean(true);
  Start(/*steps=*/1);
  ASSERT_TRUE(Step1(1).ok());
  is_asked_ = true;
  engine_->steps().Leave();
  EXPECT_FALSE(engine_->steps().AwaitOutcome(kShort));
  EXPECT_FALSE(loop_->has_finished()) << "the program may still send its last parameters";
  engine_->steps().ReportNothing();
  Join();
  EXPECT_TRUE(loop_status_.ok()) << loop_status_;
  EXPECT_TRUE(loop_->has_finished());
}

TEST_F(ProgramEngineTest, StepsDoNotEndBeforeTheAnnouncedOnesOrWithinAStep) {
  Start(/*steps=*/2);
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->End())) << "0 of 2 steps";
  ASSERT_TRUE(Step1(1).ok());
  ASSERT_TRUE(Step1(1).ok());
  EXPECT_TRUE(engine_->End().ok());
  TearDown();
  Start(/*steps=*/0);
  ASSERT_TRUE(engine_->Push(1, kForever).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->End())) << "a layer has been pushed";
}

TEST_F(ProgramEngineTest, WorkersThatAgreeEndBeforeTheAnnouncedSteps) {
  Start(/*steps=*/5);
  ASSERT_TRUE(Step1(1).ok());
  ASSERT_TRUE(Step1(1).ok());
  engine_->steps().AgreeToEnd();
  ASSERT_TRUE(engine_->End().ok());
  Join();
  ASSERT_TRUE(loop_status_.ok()) << loop_status_;
  EXPECT_EQ(loop_->progress().steps_done(), 2);
  EXPECT_EQ(loop_->progress().steps_total(), 2);
  EXPECT_TRUE(loop_->progress().ends_early());
  EXPECT_TRUE(loop_->has_finished());
}

TEST_F(ProgramEngineTest, AWorkerThatIsAskedToEndDoesNotComputeAnotherStep) {
  Start(/*steps=*/0);
  ASSERT_TRUE(Step1(1).ok());
  is_asked_ = true;
  engine_->steps().Leave();
  Join();
  EXPECT_TRUE(loop_status_.ok()) << loop_status_;
  EXPECT_FALSE(loop_->has_finished());
  EXPECT_EQ(loop_->progress().steps_done(), 1);
  // The program hears of it once the worker has left.
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine_->Push(0, kShort)));
  engine_->steps().SetOutcome(absl::CancelledError("has left"));
  EXPECT_TRUE(absl::IsCancelled(engine_->Push(0, kForever)));
}

TEST_F(ProgramEngineTest, APushThatComesWhileTheWorkerLeavesHearsThatItHasLeft) {
  Start(/*steps=*/0);
  ASSERT_TRUE(engine_->Push(1, kForever).ok());
  EXPECT_FALSE(engine_->steps().is_leaving());
  is_asked_ = true;
  engine_->steps().Leave();
  EXPECT_FALSE(engine_->steps().is_leaving()) << "a step is under way";
  ASSERT_TRUE(engine_->EndStep(0, 0, kForever).ok());
  EXPECT_TRUE(engine_->steps().is_leaving());
  std::thread worker([this, waits = clock_.waits_of_maker()] {
    Join();
    while (clock_.waits_of_maker() == waits) std::this_thread::yield();
    engine_->steps().SetOutcome(absl::CancelledError("has left"));
  });
  EXPECT_TRUE(absl::IsCancelled(engine_->Push(1, kForever)));
  EXPECT_TRUE(absl::IsCancelled(engine_->EndStep(0, 0, kForever)));
  worker.join();
}

TEST_F(ProgramEngineTest, AStepUnderWayIsFinishedBeforeTheWorkerLeaves) {
  Start(/*steps=*/0);
  Fill(1, 1);
  ASSERT_TRUE(engine_->Push(1, kForever).ok());
  is_asked_ = true;
  engine_->steps().Leave();
  ASSERT_TRUE(engine_->Push(0, kForever).ok());
  ASSERT_TRUE(engine_->EndStep(0, 1, kForever).ok());
  Join();
  EXPECT_EQ(loop_->progress().steps_done(), 1);
}

TEST_F(ProgramEngineTest, AProgramThatFailsBeforeItsFirstStepEndsWithItsReason) {
  ProgramEngine::Options options;
  options.clock = &clock_;
  options.tables = TwoTables();
  ProgramEngine engine(options);
  engine.steps().Fail(absl::InternalError("no data"));
  engine.steps().SetOutcome(
      absl::CancelledError("was asked to end before it had a place in the job"));
  EXPECT_EQ(engine.steps().AwaitStart(kForever), absl::AbortedError("no data"));
}

TEST_F(ProgramEngineTest, AFailedProgramEndsTheWorkerWithItsReason) {
  Start(/*steps=*/0);
  engine_->steps().Fail(absl::InternalError("ValueError: no data"));
  Join();
  EXPECT_EQ(loop_status_, absl::InternalError("ValueError: no data"));
  EXPECT_TRUE(absl::IsAborted(engine_->Wait(0, kForever)));
}

TEST_F(ProgramEngineTest, AFailedJobEndsTheProgramsWaitsWithTheJobsReason) {
  Start(/*steps=*/0);
  rig_->store().Fail(absl::UnavailableError("server 0 is gone"));
  std::thread worker([this] {
    Join();
    engine_->steps().SetOutcome(absl::AbortedError("the job has failed: server 0 was lost"));
  });
  const absl::Status status = engine_->Wait(0, kForever);
  worker.join();
  EXPECT_EQ(status, absl::AbortedError("the job has failed: server 0 was lost"));
}

TEST_F(ProgramEngineTest, AShortWaitForAFailedJobEndsInTimeAndALaterOneTellsTheReason) {
  Start(/*steps=*/0);
  rig_->store().Fail(absl::UnavailableError("server 0 is gone"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine_->Wait(0, kShort)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine_->Push(0, absl::ZeroDuration())));
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine_->EndStep(0, 0, kShort)));
  Join();
  engine_->steps().SetOutcome(absl::AbortedError("the job has failed: server 0 was lost"));
  EXPECT_EQ(engine_->Wait(0, absl::ZeroDuration()),
            absl::AbortedError("the job has failed: server 0 was lost"));
}

TEST_F(ProgramEngineTest, IfTheJobsReasonDoesNotComeThatOfTheExchangeIsTold) {
  FakeClock clock;
  ProgramEngine::Options options;
  options.clock = &clock;
  options.tables = TwoTables();
  engine_ = std::make_unique<ProgramEngine>(options);
  rig_ = TrainingRig::Create(engine_.get(), &clock_, {}).value();
  ASSERT_TRUE(rig_->store().WaitForAll().ok());
  engine_->BeginTraining(Step(0), /*sets_initial_values=*/false, rig_->store());
  rig_->store().Fail(absl::UnavailableError("server 0 is gone"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine_->Wait(0, absl::ZeroDuration())));
  clock.Advance(absl::Seconds(3));
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine_->Wait(0, absl::ZeroDuration())));
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(engine_->Wait(0, absl::ZeroDuration()), absl::AbortedError("server 0 is gone"));
  EXPECT_TRUE(engine_->Finish().ok());
}

TEST_F(ProgramEngineTest, ACallThatThrowsCanBeMadeAgainAndNobodyWaitsForIt) {
  Start(/*steps=*/2);
  // The second call of Now is in the wait for a layer.
  clock_.ThrowAt(2);
  EXPECT_THROW(engine_->Wait(0, kForever).IgnoreError(), std::bad_alloc);
  clock_.ThrowAt(2);
  EXPECT_THROW(engine_->EndStep(0, 1, kForever).IgnoreError(), std::bad_alloc);
  ASSERT_TRUE(Step1(1).ok());
  ASSERT_TRUE(Step1(1).ok());
  End();  // Finish waits for the end of all uses of the store.
  EXPECT_TRUE(loop_status_.ok()) << loop_status_;
}

TEST_F(ProgramEngineTest, APushThatThrowsHalfwayFailsTheWorker) {
  Start(/*steps=*/0);
  ASSERT_TRUE(engine_->Wait(-1, kForever).ok());
  // The third call of Now is in the store's push.
  clock_.ThrowAt(3);
  EXPECT_THROW(engine_->Push(1, kForever).IgnoreError(), std::bad_alloc);
  Join();
  EXPECT_TRUE(absl::IsResourceExhausted(loop_status_)) << loop_status_;
  EXPECT_TRUE(absl::IsAborted(engine_->Wait(1, kForever)));
}

TEST_F(ProgramEngineTest, AWorkerWithMoreStepsThanTheOthersFails) {
  Start(/*steps=*/0);
  ASSERT_TRUE(Step1(1).ok());
  engine_->LimitSteps(1);
  engine_->LimitSteps(1);
  // Not before it pushes.
  ASSERT_TRUE(engine_->Wait(0, kForever).ok());
  std::thread worker([this] {
    Join();
    engine_->steps().SetOutcome(loop_status_);
  });
  const absl::Status status = engine_->Push(0, kForever);
  worker.join();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_TRUE(absl::IsFailedPrecondition(loop_status_)) << loop_status_;
}

TEST_F(ProgramEngineTest, AWorkerFailsAlsoIfItHearsLateThatTheOthersHaveEnded) {
  Start(/*steps=*/0);
  ASSERT_TRUE(Step1(1).ok());
  ASSERT_TRUE(Step1(1).ok());
  engine_->LimitSteps(1);
  Join();
  EXPECT_TRUE(absl::IsFailedPrecondition(loop_status_)) << loop_status_;
}

// It has taken a lost one's place.
TEST_F(ProgramEngineTest, AWorkerThatComesAfterTheOthersLastStepLeavesIfItBeginsAnother) {
  for (const bool is_known : {true, false}) {
    SCOPED_TRACE(is_known);
    Start(/*steps=*/is_known ? 3 : 0, /*first_step=*/Step(3), /*enters_late=*/true);
    engine_->LimitSteps(is_known ? 3 : 0);
    std::thread worker([this] {
      Join();
      engine_->steps().SetOutcome(loop_status_);
    });
    absl::Status status = Step1(1);
    if (!is_known) {
      EXPECT_TRUE(status.ok()) << status;
      engine_->LimitSteps(3);
      status = engine_->Push(1, kForever);
    }
    worker.join();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_TRUE(absl::IsCancelled(loop_status_)) << loop_status_;
    EXPECT_TRUE(engine_->came_after_end());
    EXPECT_TRUE(absl::IsCancelled(engine_->Wait(0, kForever)));
  }
}

// A process before it in its place had pushed in that step.
TEST_F(ProgramEngineTest, AWorkerThatComesEvenLaterLeavesAtOnce) {
  Start(/*steps=*/0, /*first_step=*/Step(4), /*enters_late=*/true, /*others_have=*/3);
  Join();
  EXPECT_TRUE(absl::IsCancelled(loop_status_)) << loop_status_;
  EXPECT_TRUE(engine_->came_after_end());
}

TEST_F(ProgramEngineTest, AWorkerThatComesAfterTheOthersLastStepMayFinish) {
  Start(/*steps=*/3, /*first_step=*/Step(3), /*enters_late=*/true);
  End();
  EXPECT_TRUE(loop_status_.ok()) << loop_status_;
  EXPECT_TRUE(loop_->has_finished());
}

TEST_F(ProgramEngineTest, AWorkerThatEnteredLateFailsIfItGoesOnAfterStepsWithTheOthers) {
  Start(/*steps=*/0, /*first_step=*/Step(3), /*enters_late=*/true);
  ASSERT_TRUE(Step1(1).ok());
  ASSERT_TRUE(engine_->Push(1, kForever).ok());
  engine_->LimitSteps(4);
  Join();
  EXPECT_TRUE(absl::IsFailedPrecondition(loop_status_)) << loop_status_;
  EXPECT_FALSE(engine_->came_after_end());
}

TEST_F(ProgramEngineTest, CallsThatDoNotFitAreRefusedBeforeTheStart) {
  ProgramEngine::Options options;
  options.clock = &clock_;
  options.tables = TwoTables();
  ProgramEngine engine(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(engine.Wait(0, kForever)));
  EXPECT_TRUE(absl::IsFailedPrecondition(engine.Push(0, kForever)));
  EXPECT_TRUE(absl::IsFailedPrecondition(engine.EndStep(0, 0, kForever)));
  EXPECT_TRUE(absl::IsFailedPrecondition(engine.SetLearningRate(std::nullopt, 1)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine.steps().AwaitStart(kShort)));
  EXPECT_TRUE(engine.values().empty());
}

TEST_F(ProgramEngineTest, OnlyAnOptimizerWithAMomentumTakesAnother) {
  tables_[0].mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  v1::OptimizerSpec& rmsprop = *tables_[1].mutable_optimizer();
  rmsprop.set_type(v1::OptimizerSpec::RMSPROP);
  rmsprop.set_momentum(0);
  Start(/*steps=*/1);
  const absl::Status none = engine_->SetMomentum(std::nullopt, 0.5);
  EXPECT_TRUE(absl::IsInvalidArgument(none)) << none;
  rmsprop.set_momentum(0.9);
  engine_->steps().Fail(absl::InternalError("another one follows"));
  Join();
  Start(/*steps=*/1);
  EXPECT_TRUE(engine_->SetMomentum(std::nullopt, 0.5).ok());
  EXPECT_TRUE(engine_->SetMomentum(TableId(1), 0.5).ok());
  const absl::Status of_sgd = engine_->SetMomentum(TableId(0), 0.5);
  EXPECT_TRUE(absl::IsInvalidArgument(of_sgd)) << of_sgd;
  EXPECT_NE(of_sgd.message().find("table w0: expected a dense table whose"),
            absl::string_view::npos);
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->SetMomentum(TableId(2), 0.5)));
}

TEST_F(ProgramEngineTest, TheEvaluatorReportsAfterItHasTheFinalValues) {
  Start(/*steps=*/1);
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->steps().AwaitEvaluation(kShort).status()));
  ASSERT_TRUE(Step1(1).ok());
  ASSERT_TRUE(engine_->End().ok());
  Join();
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine_->steps().AwaitEvaluation(kShort).status()));
  v1::ReportResultRequest result;
  std::thread session([&] {
    EXPECT_TRUE(engine_->Evaluate(Step(1), rig_->store(), result).ok());
    engine_->steps().SetOutcome(absl::OkStatus());
  });
  EXPECT_TRUE(engine_->steps().AwaitEvaluation(kForever).value());
  v1::ReportResultRequest report;
  report.set_test_accuracy(0.75);
  report.set_has_no_loss(true);
  EXPECT_TRUE(engine_->steps().Report(report, kForever).ok());
  session.join();
  EXPECT_EQ(result.test_accuracy(), 0.75);
  EXPECT_TRUE(result.has_no_loss());
}

TEST_F(ProgramEngineTest, AnEvaluatorThatReportsNothingIsNotAwaited) {
  Start(/*steps=*/1);
  ASSERT_TRUE(Step1(1).ok());
  ASSERT_TRUE(engine_->End().ok());
  Join();
  engine_->steps().ReportNothing();
  v1::ReportResultRequest result;
  ASSERT_TRUE(engine_->Evaluate(Step(1), rig_->store(), result).ok());
  EXPECT_TRUE(result.has_no_accuracy());
  EXPECT_TRUE(result.has_no_loss());
}

TEST_F(ProgramEngineTest, AProgramDoesAtLeastOneStep) {
  Start(/*steps=*/0);
  const absl::Status refused = engine_->End();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
}

TEST_F(ProgramEngineTest, Worker0MustHaveTheInitialValuesThatItIsToSend) {
  ProgramEngine::Options options;
  options.clock = &clock_;
  options.tables = TwoTables();
  options.tables[1].set_initial_from_worker(true);
  options.initial.resize(2);
  engine_ = std::make_unique<ProgramEngine>(options);
  rig_ = TrainingRig::Create(engine_.get(), &clock_, {}).value();
  ASSERT_TRUE(rig_->store().WaitForAll().ok());
  engine_->BeginTraining(Step(0), /*sets_initial_values=*/true, rig_->store());
  EXPECT_TRUE(absl::IsInvalidArgument(rig_->store().WaitForAll()));
  EXPECT_TRUE(engine_->Finish().ok());
}

TEST_F(ProgramEngineTest, AnotherWorkerHearsOfTheJobsEnd) {
  Start(/*steps=*/1);
  ASSERT_TRUE(Step1(1).ok());
  ASSERT_TRUE(engine_->End().ok());
  Join();
  engine_->steps().SetOutcome(absl::OkStatus());
  EXPECT_FALSE(engine_->steps().AwaitEvaluation(kForever).value());
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->steps().Report({}, kForever)));
}

TEST_F(ProgramEngineTest, TheJobMayBeDoneBeforeTheProgramIs) {
  Start(/*steps=*/1);
  ASSERT_TRUE(Step1(1).ok());
  End();
  engine_->steps().SetOutcome(absl::OkStatus());
  EXPECT_EQ(Values(0), std::vector<float>(kElements, -0.5f));
  EXPECT_TRUE(engine_->SetLearningRate(std::nullopt, 0.1).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->Push(0, kForever)));
  EXPECT_FALSE(engine_->steps().AwaitEvaluation(kForever).value());
}

TEST_F(ProgramEngineTest, ManyThreadsMayPushDifferentLayers) {
  constexpr int kSteps = 50;
  Start(kSteps);
  const std::vector<float> first = Values(0);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::thread> threads;
    for (const int layer : {0, 1}) {
      threads.emplace_back([this, layer] {
        EXPECT_TRUE(engine_->Wait(layer, kForever).ok());
        Fill(layer, 0.25f);
        EXPECT_TRUE(engine_->Push(layer, kForever).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(engine_->EndStep(0, 1, kForever).ok());
  }
  End();
  EXPECT_FLOAT_EQ(Values(0)[0], first[0] - kLearningRate * 0.25f * kSteps);
}

TEST_F(ProgramEngineTest, ManyThreadsMayEndSteps) {
  constexpr int kStepsOfThread = 50;
  Start(2 * kStepsOfThread);
  std::thread threads[2];
  for (std::thread& thread : threads) {
    thread = std::thread([this] {
      for (int i = 0; i < kStepsOfThread; ++i) {
        EXPECT_TRUE(engine_->EndStep(0, 1, kForever).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  End();
  EXPECT_TRUE(loop_status_.ok()) << loop_status_;
  EXPECT_EQ(loop_->progress().steps_done(), 2 * kStepsOfThread);
}

}  // namespace
}  // namespace capstan
