#include "worker/runtime/training_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/real_clock.h"
#include "worker/engine/training_rig.h"

namespace capstan {
namespace {

constexpr uint64_t kSamples = 23;
constexpr WorkerId kWorker(1);  // of two

using Samples = std::vector<uint32_t>;

// The real clock, which the test moves ahead.
class AheadClock : public Clock {
 public:
  void Advance(absl::Duration duration) { ahead_ns_ += absl::ToInt64Nanoseconds(duration); }

  absl::Time Now() const override { return clock_.Now() + ahead(); }
  TimerId RunAt(absl::Time when, absl::AnyInvocable<void()> callback) override {
    return clock_.RunAt(when - ahead(), std::move(callback));
  }
  bool Cancel(TimerId timer) override { return clock_.Cancel(timer); }
  bool WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return clock_.WaitUntil(mutex, condition, deadline - ahead());
  }

 private:
  absl::Duration ahead() const { return absl::Nanoseconds(ahead_ns_.load()); }

  RealClock clock_;
  std::atomic<int64_t> ahead_ns_ = 0;
};

// Notes its calls. One layer of 8 weights; the gradients stay 0.
class NotingEngine : public Engine {
 public:
  explicit NotingEngine(AheadClock* clock) : clock_(clock) {
    tables_.emplace_back().set_name("w");
    tables_[0].add_shape(8);
  }

  const std::string& device_name() const override { return name_; }
  const std::vector<v1::TableSpec>& tables() const override { return tables_; }
  ParameterMirror* mirror() override { return nullptr; }

  absl::Status LoadBatch(const Dataset&, absl::Span<const uint32_t> samples) override {
    batches.emplace_back(samples.begin(), samples.end());
    return absl::OkStatus();
  }
  absl::Status RunStep(Step step, ParameterStore& store) override {
    if (absl::Status status = RunForward(store); !status.ok()) return status;
    steps.push_back(step);
    if (steps.size() <= slow_steps) clock_->Advance(kSlow);
    store.PushPull(0, step);
    return absl::OkStatus();
  }
  absl::Status RunForward(ParameterStore& store) override { return store.WaitForLayer(0); }
  absl::StatusOr<BatchResult> Result() override {
    BatchResult result;
    const size_t batch_size = batches[steps.size() - 1].size();
    result.loss_sum = loss_of(steps.back().value()) * static_cast<double>(batch_size);
    return result;
  }
  absl::Status Finish() override { return absl::OkStatus(); }

  static constexpr absl::Duration kSlow = absl::Hours(1);
  std::function<double(int64_t)> loss_of = [](int64_t) { return 0.0; };  // mean, of a step's batch
  size_t slow_steps = 0;                                                 // that take so long
  std::vector<Samples> batches;  // in the order in which they were loaded
  std::vector<Step> steps;       // that were run

 private:
  AheadClock* clock_;
  std::string name_ = "notes";
  std::vector<v1::TableSpec> tables_;
};

BatchSampler Sampler() {
  BatchSampler::Options options;
  options.sample_count = kSamples;
  options.num_workers = 2;
  options.batch_size = 4;  // 3 steps an epoch
  return BatchSampler::Create(options).value();
}

class TrainingLoopTest : public testing::Test {
 protected:
  // Trains `steps` steps from `first_step` on.
  void Run(Step first_step, int64_t steps) {
    rig_ = TrainingRig::Create(&engine_, &clock_, TrainingRig::Options()).value();
    // The rig has pulled. A slice has one exchange at a time.
    ASSERT_TRUE(rig_->store().WaitForAll().ok());
    TrainingLoop::Options options;
    options.clock = &clock_;
    options.engine = &engine_;
    options.store = &rig_->store();
    options.sampler = &sampler_;
    options.train = &data_;
    options.worker = kWorker;
    options.first_step = first_step;
    options.steps = steps;
    options.must_stop = must_stop_;
    TrainingLoop loop(options);
    progress_before_ = loop.progress();
    had_finished_ = loop.has_finished();
    ASSERT_TRUE(loop.Run().ok());
    progress_ = loop.progress();
    has_finished_ = loop.has_finished();
  }

  AheadClock clock_;
  NotingEngine engine_{&clock_};
  BatchSampler sampler_ = Sampler();
  const Dataset data_ = RandomDataset(kSamples, /*features=*/2, /*classes=*/2, /*seed=*/1);
  std::unique_ptr<TrainingRig> rig_;
  std::function<bool()> must_stop_ = [] { return false; };
  v1::Progress progress_before_;  // Run
  v1::Progress progress_;
  bool had_finished_ = false;  // before Run
  bool has_finished_ = false;
};

TEST_F(TrainingLoopTest, StopsBetweenTwoStepsWhenAllOfTheLatestIsAnswered) {
  must_stop_ = [this] { return engine_.steps.size() == 3; };
  Run(Step(2), /*steps=*/10);
  EXPECT_EQ(engine_.steps.back(), Step(4));
  EXPECT_EQ(progress_.steps_done(), 5);
  EXPECT_FALSE(has_finished_);
  must_stop_ = [] { return false; };
  Run(Step(5), /*steps=*/10);
  EXPECT_TRUE(has_finished_);
}

TEST_F(TrainingLoopTest, RunsAllStepsFromTheFirstOneOnWithTheBatchesThatBelongToThem) {
  for (const int64_t first_step : {0, 2, 7}) {
    engine_ = NotingEngine(&clock_);
    Run(Step(first_step), /*steps=*/10);
    EXPECT_EQ(progress_before_.steps_done(), first_step);
    ASSERT_EQ(engine_.steps.size(), static_cast<size_t>(10 - first_step));
    ASSERT_EQ(engine_.batches.size(), engine_.steps.size());
    uint64_t samples = 0;
    for (size_t i = 0; i < engine_.steps.size(); ++i) {
      const Step step(first_step + static_cast<int64_t>(i));
      EXPECT_EQ(engine_.steps[i], step);
      BatchSampler fresh = Sampler();
      const absl::Span<const uint32_t> expected = fresh.Indices(kWorker, step);
      EXPECT_EQ(engine_.batches[i], Samples(expected.begin(), expected.end())) << "step " << step;
      samples += expected.size();
    }
    EXPECT_EQ(progress_.steps_done(), 10);
    EXPECT_EQ(progress_.steps_total(), 10);
    EXPECT_EQ(progress_.samples(), samples) << "its own";
    EXPECT_GT(progress_.seconds(), 0);
    EXPECT_GT(progress_.median_step_seconds(), 0);
    EXPECT_LT(progress_.median_step_seconds(), progress_.seconds());
  }
}

TEST_F(TrainingLoopTest, WithoutCodecsTheBytesAreThoseOfFloat32) {
  Run(Step(0), /*steps=*/5);
  // 8 weights, pushed and pulled 5 times. The rig and the loop each pull them once before.
  EXPECT_EQ(progress_.bytes_pushed(), 5u * 32);
  EXPECT_EQ(progress_.float_bytes_pushed(), 5u * 32);
  EXPECT_EQ(progress_.bytes_pulled(), 7u * 32);
  EXPECT_EQ(progress_.float_bytes_pulled(), 7u * 32);
  EXPECT_EQ(progress_.gradient_squares(), 0);
  EXPECT_EQ(progress_.residual_squares(), 0);
  EXPECT_EQ(progress_.seconds_coding(), 0);
}

TEST_F(TrainingLoopTest, TheFirstThreeStepsDoNotCountForTheMedianTime) {
  const auto median_of = [this](int64_t steps) {
    engine_ = NotingEngine(&clock_);
    engine_.slow_steps = 4;  // a step's time ends within the next one
    Run(Step(7), /*steps=*/7 + steps);
    return absl::Seconds(progress_.median_step_seconds());
  };
  EXPECT_GE(median_of(3), NotingEngine::kSlow) << "there are no others";
  EXPECT_LT(median_of(4), NotingEngine::kSlow);
}

// A loss that falls from 100 and jumps to 1,000 for the steps 40 to 44.
double FallingWithAPeak(int64_t step) {
  return step >= 40 && step < 45 ? 1000 : 100 - static_cast<double>(step);
}

TEST_F(TrainingLoopTest, TellsTheLossAtTheStartAtItsWorstAndAtTheEnd) {
  engine_.loss_of = FallingWithAPeak;
  Run(Step(0), /*steps=*/100);
  // Batches differ in size, so means over samples differ a little from means over steps.
  EXPECT_NEAR(progress_.first_loss(), 95.5, 0.5) << "of steps 0 to 9";
  EXPECT_NEAR(progress_.largest_loss(), 170, 20) << "of steps 0 to 49";
  EXPECT_NEAR(progress_.loss(), 25.5, 1) << "of steps 50 to 99";
}

TEST_F(TrainingLoopTest, OfFewerStepsThanTheStartHasEachIsTheStart) {
  engine_.loss_of = FallingWithAPeak;
  Run(Step(0), /*steps=*/3);
  EXPECT_EQ(progress_.first_loss(), progress_.loss());
  EXPECT_EQ(progress_.largest_loss(), 0) << "too few to tell";
}

TEST_F(TrainingLoopTest, AWorkerThatBeginsLaterDoesNotKnowTheLossAtTheStart) {
  Run(Step(1), /*steps=*/20);
  EXPECT_FALSE(progress_.has_first_loss());
}

TEST_F(TrainingLoopTest, AWorkerThatComesAfterTheLastStepHasNothingToDo) {
  Run(Step(10), /*steps=*/10);
  EXPECT_TRUE(engine_.steps.empty());
  EXPECT_TRUE(engine_.batches.empty());
  EXPECT_EQ(progress_.steps_done(), 10);
  EXPECT_EQ(progress_.samples(), 0u);
  EXPECT_EQ(progress_.seconds(), 0);
}

// The job's evaluation may begin once all have finished. The last checkpoint then needs what this
// worker sends with its pull.
TEST_F(TrainingLoopTest, AWorkerThatComesAfterTheLastStepHasFinishedOnlyWhenItHasPulled) {
  Run(Step(10), /*steps=*/10);
  EXPECT_EQ(progress_before_.steps_total(), 10);
  EXPECT_LT(progress_before_.steps_done(), 10);
  EXPECT_FALSE(had_finished_);
  EXPECT_EQ(progress_.steps_done(), 10);
  EXPECT_TRUE(has_finished_);
}

}  // namespace
}  // namespace capstan
