#include "server/slice/dense_slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/update_scale.h"
#include "server/slice/slice_state.h"

namespace capstan {
namespace {

constexpr int kWorkers = 3;
constexpr size_t kSize = 10001;  // several blocks, and a part of one

std::unique_ptr<Optimizer> MakeAdam() {
  v1::OptimizerSpec spec;
  spec.set_type(v1::OptimizerSpec::ADAM);
  spec.set_learning_rate(0.1);
  spec.set_weight_decay(0.01);
  return MakeOptimizer(spec).value();
}

std::vector<float> NormalVector(Random& random) {
  std::vector<float> numbers(kSize);
  for (float& number : numbers) number = random.Normal();
  return numbers;
}

// The reference: one loop over whole arrays.
class Reference {
 public:
  explicit Reference(const Optimizer& optimizer) : optimizer_(optimizer) {}

  void Apply(const std::vector<float>& gradient, uint64_t learning_rate_divisor = 1,
             const Rates& rates = {}) {
    optimizer_.Apply(gradient, {++version_, learning_rate_divisor, rates}, absl::MakeSpan(values_),
                     {absl::MakeSpan(first_), absl::MakeSpan(second_)});
  }
  void ResetValues() { values_.assign(kSize, 0); }
  const std::vector<float>& values() const { return values_; }

 private:
  const Optimizer& optimizer_;
  int64_t version_ = 0;
  std::vector<float> values_ = std::vector<float>(kSize);
  std::vector<float> first_ = std::vector<float>(kSize);
  std::vector<float> second_ = std::vector<float>(kSize);
};

class DenseSliceTest : public testing::Test {
 protected:
  std::unique_ptr<Slice> MakeSlice(ConsistencyMode mode,
                                   UpdateScale update_scale = UpdateScale::kStaleness) {
    const ConsistencyPeriod period = {Step(0), mode};
    DenseSlice::Options options;
    options.slice.update_scale = update_scale;
    options.slice.name = "slice 0 of w";
    options.memory = SliceState::Allocate(kSize, optimizer_.get()).value();
    options.optimizer = optimizer_.get();
    options.own_arrays = own_arrays_;
    options.keeps_open_step = keeps_open_step_;
    options.slice.schedule = MakeConsistencySchedule({&period, 1}).value();
    options.slice.non_finite_pushes = &non_finite_pushes_;
    auto slice = std::make_unique<DenseSlice>(std::move(options));
    ReleasedReplies none;
    for (int worker = 0; worker < kWorkers; ++worker) slice->AddWorkers({WorkerId(worker)}, &none);
    return slice;
  }

  // Pushes a gradient of the worker's latest values, pulls, and keeps the due replies. No elements:
  // an empty push.
  void PushPull(Slice& slice, int worker, Step step, const std::vector<float>& gradient,
                const Rates& rates = {}) {
    const auto owned = std::make_shared<std::vector<float>>(gradient);
    StepPush push = {step, std::nullopt, pulled_version_[worker], rates};
    if (!gradient.empty()) push.gradient = {Payload(absl::MakeConstSpan(*owned), owned)};
    ExchangeRequest request;
    request.sender.worker = WorkerId(worker);
    request.purpose = DenseStep{std::move(push), StepPull{step + 1}};
    ReleasedReplies released;
    slice.Exchange(
        std::move(request),
        [this, worker](ExchangeReply reply) {
          if (reply.status.ok()) pulled_version_[worker] = reply.version;
          replies_.push_back(std::move(reply));
        },
        &released);
    for (auto& [done, reply] : released) done(std::move(reply));
  }

  // The answer to worker 0's request, which comes at once.
  static ExchangeReply Ask(Slice& slice, decltype(ExchangeRequest::purpose) purpose) {
    ExchangeRequest request;
    request.purpose = std::move(purpose);
    ExchangeReply answer;
    ReleasedReplies released;
    slice.Exchange(
        std::move(request), [&answer](ExchangeReply reply) { answer = std::move(reply); },
        &released);
    for (auto& [done, reply] : released) done(std::move(reply));
    return answer;
  }

  static std::vector<float> ValuesOf(const ExchangeReply& reply) {
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    std::vector<float> values(kSize);
    reply.values.CopyTo(absl::MakeSpan(values));
    return values;
  }

  // All workers do the step.
  void DoStep(Slice& slice, Step step, const std::vector<float>& gradient) {
    replies_.clear();
    for (int worker = 0; worker < kWorkers; ++worker) PushPull(slice, worker, step, gradient);
  }
  // Another process does worker 0's step again.
  static void BeginWith(Slice& slice, Step step) {
    ReleasedReplies none;
    slice.EnterWorker(WorkerId(0), step, &none);
  }
  // Worker 0's pull.
  static ExchangeReply Pull(Slice& slice, Step step) {
    return Ask(slice, DenseStep{std::nullopt, StepPull{step}});
  }

  const std::unique_ptr<Optimizer> optimizer_ = MakeAdam();
  uint32_t own_arrays_ = 0;
  bool keeps_open_step_ = false;
  WorkerCounter non_finite_pushes_;
  std::array<uint64_t, kWorkers> pulled_version_ = {};
  std::vector<ExchangeReply> replies_;
};

TEST_F(DenseSliceTest, MeansOfWholeStepsGiveTheBitsOfOneLoop) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kBsp);
  Reference reference(*optimizer_);
  Random random(/*seed=*/91);
  for (Step step(0); step < Step(4); step = step + 1) {
    std::vector<float> mean(kSize);
    std::vector<std::vector<float>> gradients;
    for (int worker = 0; worker < kWorkers; ++worker) {
      gradients.push_back(NormalVector(random));
      for (size_t i = 0; i < kSize; ++i) {
        mean[i] = worker == 0 ? gradients[0][i] : mean[i] + gradients[worker][i];
      }
    }
    for (float& element : mean) element /= kWorkers;
    reference.Apply(mean);

    replies_.clear();
    for (const int worker : {2, 0, 1}) PushPull(*slice, worker, step, gradients[worker]);

    ASSERT_EQ(replies_.size(), size_t{kWorkers});
    for (const ExchangeReply& reply : replies_) EXPECT_EQ(ValuesOf(reply), reference.values());
  }
}

TEST_F(DenseSliceTest, UpdatesAfterUpdatesGiveTheBitsOfOneLoopWhileOlderValuesAreRead) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kAsync, UpdateScale::kSum);
  Reference reference(*optimizer_);
  Random random(/*seed=*/92);
  std::vector<std::vector<float>> expected;
  for (int step = 0; step < 3; ++step) {
    for (int worker = 0; worker < kWorkers; ++worker) {
      const std::vector<float> gradient = NormalVector(random);
      PushPull(*slice, worker, Step(step), gradient);
      reference.Apply(gradient);
      expected.push_back(reference.values());
    }
  }
  ASSERT_EQ(replies_.size(), expected.size());
  for (size_t i = 0; i < replies_.size(); ++i) EXPECT_EQ(ValuesOf(replies_[i]), expected[i]);
}

TEST_F(DenseSliceTest, APushesLearningRateIsDividedByLiveWorkersAndByUpdatesSinceItsPull) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kAsync);
  Reference reference(*optimizer_);
  Random random(/*seed=*/94);
  // Worker 1 misses one update in its first step, worker 2 two; later each misses two.
  for (const uint64_t divisor : {3 + 0, 3 + 1, 3 + 2, 3 + 2, 3 + 2, 3 + 2}) {
    const int push = static_cast<int>(replies_.size());
    const std::vector<float> gradient = NormalVector(random);
    PushPull(*slice, push % kWorkers, Step(push / kWorkers), gradient);
    reference.Apply(gradient, divisor);
    EXPECT_EQ(replies_.back().learning_rate_divisor, divisor);
    EXPECT_EQ(ValuesOf(replies_.back()), reference.values());
  }
  ReleasedReplies none;
  slice->RemoveWorker(WorkerId(2), &none);
  PushPull(*slice, /*worker=*/0, Step(2), NormalVector(random));
  EXPECT_EQ(replies_.back().learning_rate_divisor, 2u + 2u);
}

TEST_F(DenseSliceTest, UnderBspTheLearningRateOfAPushIsNotDivided) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kBsp);
  Random random(/*seed=*/95);
  for (int worker = 0; worker < kWorkers; ++worker) {
    PushPull(*slice, worker, Step(0), NormalVector(random));
  }
  for (const ExchangeReply& reply : replies_) EXPECT_EQ(reply.learning_rate_divisor, 0u);
}

TEST_F(DenseSliceTest, APushComputedWithAVersionThatDoesNotExistIsRefused) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kAsync);
  pulled_version_[0] = 1;
  PushPull(*slice, /*worker=*/0, Step(0), std::vector<float>(kSize));
  EXPECT_TRUE(absl::IsInvalidArgument(replies_.back().status)) << replies_.back().status;
  EXPECT_EQ(slice->version(), 0u);
}

TEST_F(DenseSliceTest, ANonFiniteElementAnywhereLeavesEverythingAsItWas) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kAsync);
  Reference reference(*optimizer_);
  Random random(/*seed=*/93);
  const std::vector<float> gradient = NormalVector(random);
  for (const size_t place : {size_t{0}, kSize / 2, kSize - 1}) {
    std::vector<float> bad = gradient;
    bad[place] = std::numeric_limits<float>::infinity();
    PushPull(*slice, /*worker=*/0, Step(0), bad);
    EXPECT_TRUE(absl::IsInvalidArgument(replies_.back().status)) << replies_.back().status;
  }
  EXPECT_EQ(slice->version(), 0u);
  EXPECT_EQ(non_finite_pushes_.counts()[WorkerId(0)], 3);

  PushPull(*slice, /*worker=*/0, Step(0), gradient);
  reference.Apply(gradient, kWorkers);
  EXPECT_EQ(ValuesOf(replies_.back()), reference.values());
}

TEST_F(DenseSliceTest, RatesOfAPushTakeThePlaceOfTheOptimizersAndTheLearningRateIsDivided) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kAsync, UpdateScale::kMean);
  Reference reference(*optimizer_);
  Random random(/*seed=*/96);
  for (const Rates& rates : {Rates{0.5}, Rates{0, 0.5}, Rates{std::nullopt, 0.0}, Rates()}) {
    for (int worker = 0; worker < kWorkers; ++worker) {
      const std::vector<float> gradient = NormalVector(random);
      PushPull(*slice, worker, slice->next_step(WorkerId(worker)), gradient, rates);
      reference.Apply(gradient, kWorkers, rates);
      EXPECT_EQ(ValuesOf(replies_.back()), reference.values());
    }
  }
}

TEST_F(DenseSliceTest, AWholeStepHasTheRatesOfTheSmallestWorkerWithAGradient) {
  Random random(/*seed=*/97);
  const std::vector<float> gradient = NormalVector(random);
  const std::vector<float> none;
  std::vector<float> mean = gradient;
  for (float& element : mean) element = (element + element) / kWorkers;
  std::vector<int> order = {0, 1, 2};
  do {
    const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kBsp);
    Reference reference(*optimizer_);
    pulled_version_ = {};
    for (const int worker : order) {
      const Rates rates = {/*learning_rate=*/0.25 * (1 + worker), /*momentum=*/0.2 * (1 + worker)};
      PushPull(*slice, worker, Step(0), worker == 0 ? none : gradient, rates);
    }
    reference.Apply(mean, /*learning_rate_divisor=*/1, Rates{0.5, 0.4});
    EXPECT_EQ(ValuesOf(replies_.back()), reference.values());
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(DenseSliceTest, AWholeStepWithoutAGradientIsDoneAndChangesNothing) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kBsp);
  Reference reference(*optimizer_);
  Random random(/*seed=*/98);
  const std::vector<float> gradient = NormalVector(random);
  std::vector<float> mean = gradient;
  for (float& element : mean) element = (element + element + element) / kWorkers;
  for (int worker = 0; worker < kWorkers; ++worker) PushPull(*slice, worker, Step(0), gradient);
  reference.Apply(mean);
  for (int worker = 0; worker < kWorkers; ++worker) {
    EXPECT_EQ(replies_.size(), size_t{kWorkers}) << "the step is not complete";
    PushPull(*slice, worker, Step(1), {});
  }
  ASSERT_EQ(replies_.size(), size_t{2 * kWorkers});
  for (int i = kWorkers; i < 2 * kWorkers; ++i) {
    EXPECT_EQ(replies_[i].version, 1u) << "no application of the optimizer";
    EXPECT_EQ(replies_[i].min_step, Step(2));
    EXPECT_EQ(ValuesOf(replies_[i]), reference.values());
  }
  // Adam corrects its moments by the number of applications.
  for (int worker = 0; worker < kWorkers; ++worker) PushPull(*slice, worker, Step(2), gradient);
  reference.Apply(mean);
  EXPECT_EQ(replies_.back().version, 2u);
  EXPECT_EQ(ValuesOf(replies_.back()), reference.values());
}

TEST_F(DenseSliceTest, OutsideOfBspAnEmptyPushIsAStepAndNoUpdate) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kAsync);
  for (int worker = 0; worker < kWorkers; ++worker) {
    PushPull(*slice, worker, Step(0), {}, Rates{/*learning_rate=*/0.5});
    EXPECT_EQ(replies_.back().version, 0u);
    EXPECT_EQ(replies_.back().learning_rate_divisor, 0u);
    EXPECT_EQ(ValuesOf(replies_.back()), std::vector<float>(kSize));
  }
  EXPECT_EQ(replies_.back().min_step, Step(1));
  EXPECT_EQ(slice->duplicate_pushes(), 0);
  PushPull(*slice, /*worker=*/0, Step(0), {});
  EXPECT_EQ(slice->duplicate_pushes(), 1) << "it is known as any push";
}

TEST_F(DenseSliceTest, TheLatestStepCanBeDoneAgainWithTheValuesBeforeItAlsoAnEmptyOne) {
  keeps_open_step_ = true;
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kBsp);
  Random random(/*seed=*/99);
  std::vector<float> before(kSize);
  uint64_t version = 0;
  for (Step step(0); step < Step(4); step = step + 1) {
    const bool is_empty = step == Step(2);
    DoStep(*slice, step, is_empty ? std::vector<float>() : NormalVector(random));
    BeginWith(*slice, step);
    const ExchangeReply again = Pull(*slice, step);
    EXPECT_EQ(ValuesOf(again), before) << "step " << step.value();
    EXPECT_EQ(again.version, version);
    EXPECT_EQ(again.min_step, step);
    EXPECT_EQ(again.codec, CodecType::kFloat32);
    EXPECT_EQ(again.learning_rate_divisor, 0u);
    const ExchangeReply next = Pull(*slice, step + 1);
    EXPECT_EQ(ValuesOf(next) == before, is_empty);
    EXPECT_EQ(next.version, is_empty ? version : version + 1);
    EXPECT_EQ(next.min_step, step + 1);
    before = ValuesOf(next);
    version = next.version;
  }
  BeginWith(*slice, Step(2));
  const absl::Status gone = Pull(*slice, Step(2)).status;
  EXPECT_TRUE(absl::IsFailedPrecondition(gone)) << gone;
}

// Its worker has newer values by then, in one process or over UCX at the same place in memory.
TEST_F(DenseSliceTest, ALateDuplicateOfAPullGetsNoValues) {
  keeps_open_step_ = true;
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kBsp);
  const std::vector<float> gradient(kSize, 1.0f);
  DoStep(*slice, Step(0), gradient);
  DoStep(*slice, Step(1), gradient);
  const absl::Status of_living = Pull(*slice, Step(1)).status;
  EXPECT_TRUE(absl::IsFailedPrecondition(of_living)) << of_living;
  BeginWith(*slice, Step(1));
  EXPECT_TRUE(Pull(*slice, Step(1)).status.ok());
  EXPECT_TRUE(Pull(*slice, Step(1)).status.ok()) << "its reply may have been lost";
  PushPull(*slice, /*worker=*/0, Step(1), gradient);
  EXPECT_EQ(slice->duplicate_pushes(), 1);
  const absl::Status after_it = Pull(*slice, Step(1)).status;
  EXPECT_TRUE(absl::IsFailedPrecondition(after_it)) << after_it;
}

TEST_F(DenseSliceTest, ASliceThatDoesNotKeepItHasNoValuesOfAStepThatIsApplied) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kBsp);
  DoStep(*slice, Step(0), std::vector<float>(kSize, 1.0f));
  BeginWith(*slice, Step(0));
  const absl::Status gone = Pull(*slice, Step(0)).status;
  EXPECT_TRUE(absl::IsFailedPrecondition(gone)) << gone;
}

// Its process has no state of the cut before it has done the step.
TEST_F(DenseSliceTest, AWorkerThatDoesAStepAgainIsNotAskedForItsStateAfterIt) {
  keeps_open_step_ = true;
  own_arrays_ = 1;
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kBsp);
  ReleasedReplies none;
  slice->CutAt(Step(1), &none);
  DoStep(*slice, Step(0), std::vector<float>(kSize, 1.0f));
  EXPECT_EQ(Pull(*slice, Step(1)).cut, 1u);
  BeginWith(*slice, Step(0));
  EXPECT_EQ(Pull(*slice, Step(0)).cut, 0u);
}

TEST_F(DenseSliceTest, TheValuesBeforeTheLatestStepTakeOneMoreCopy) {
  for (const bool keeps : {false, true}) {
    keeps_open_step_ = keeps;
    pulled_version_ = {};
    const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kBsp);
    for (Step step(0); step < Step(3); step = step + 1) {
      DoStep(*slice, step, std::vector<float>(kSize, 1.0f));
      EXPECT_EQ(slice->memory().parameters, (keeps ? 2 : 1) * kSize * sizeof(float));
    }
    EXPECT_EQ(slice->version(), 3u);
  }
}

// The optimizer's state of one slice, loaded into another, which counts its own updates from 0.
TEST_F(DenseSliceTest, AnOptimizersStateGoesOnInAnotherSlice) {
  Random random(/*seed=*/98);
  const std::unique_ptr<Slice> first = MakeSlice(ConsistencyMode::kAsync, UpdateScale::kSum);
  const std::unique_ptr<Slice> second = MakeSlice(ConsistencyMode::kAsync, UpdateScale::kSum);
  Reference reference(*optimizer_);
  for (int step = 0; step < 3; ++step) {
    const std::vector<float> gradient = NormalVector(random);
    PushPull(*first, /*worker=*/0, Step(step), gradient);
    reference.Apply(gradient);
  }
  for (const uint32_t array : {0, 1}) {
    const ExchangeReply read = Ask(*first, OptimizerStatePull{array});
    ASSERT_TRUE(read.status.ok()) << read.status;
    EXPECT_EQ(read.optimizer_steps, 3u);
    EXPECT_EQ(read.version, 3u);
    const ExchangeReply loaded =
        Ask(*second, OptimizerState{array, read.optimizer_steps, read.values});
    EXPECT_TRUE(loaded.status.ok()) << loaded.status;
    const ExchangeReply again = Ask(*second, OptimizerStatePull{array});
    EXPECT_EQ(again.optimizer_steps, 3u);
    EXPECT_EQ(again.version, 0u) << "loading is no update";
    EXPECT_EQ(ValuesOf(again), ValuesOf(read));
  }
  // Its values begin with 0.
  pulled_version_ = {};
  const std::vector<float> gradient = NormalVector(random);
  PushPull(*second, /*worker=*/0, Step(0), gradient);
  reference.ResetValues();
  reference.Apply(gradient);
  EXPECT_EQ(ValuesOf(replies_.back()), reference.values());
  EXPECT_EQ(replies_.back().version, 1u);
  EXPECT_EQ(Ask(*second, OptimizerStatePull{0}).optimizer_steps, 4u);
  // A restored slice has its own count, and keeps it.
  const SliceSnapshot snapshot = second->Snapshot();
  EXPECT_EQ(snapshot.version, 1u);
  EXPECT_EQ(snapshot.optimizer_steps, 4u);
}

TEST_F(DenseSliceTest, AnOptimizersStateIsRefusedUnlessItFitsAndComesInTime) {
  const std::unique_ptr<Slice> slice = MakeSlice(ConsistencyMode::kAsync);
  const auto with = [](uint32_t array, size_t size, float value, uint64_t steps = 1) {
    const auto owned = std::make_shared<std::vector<float>>(size, value);
    return OptimizerState{array, steps, Payload(absl::MakeConstSpan(*owned), owned)};
  };
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(*slice, with(2, kSize, 0)).status));
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(*slice, with(0, kSize - 1, 0)).status));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Ask(*slice, with(0, kSize, std::numeric_limits<float>::infinity())).status));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Ask(*slice, with(0, kSize, 0, std::numeric_limits<uint64_t>::max())).status));
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(*slice, OptimizerStatePull{2}).status));
  EXPECT_EQ(Ask(*slice, OptimizerStatePull{0}).optimizer_steps, 0u) << "nothing was loaded";

  PushPull(*slice, /*worker=*/0, Step(0), std::vector<float>(kSize, 1.0f));
  // As initial values that come late: it may be another process in the place of worker 0.
  EXPECT_TRUE(Ask(*slice, with(0, kSize, 5)).status.ok());
  EXPECT_NE(ValuesOf(Ask(*slice, OptimizerStatePull{0})), std::vector<float>(kSize, 5.0f));
  EXPECT_EQ(Ask(*slice, OptimizerStatePull{0}).optimizer_steps, 1u);
}

}  // namespace
}  // namespace capstan
