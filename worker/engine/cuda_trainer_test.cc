#include "worker/engine/cuda_trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "common/base/random.h"
#include "common/base/real_clock.h"
#include "common/routing/job_view.h"
#include "worker/engine/cpu_trainer.h"
#include "worker/engine/training_rig.h"

namespace capstan {
namespace {

constexpr int kFeatures = 13;
constexpr int kClasses = 5;
constexpr int kSamples = 32;

// Both trainers of one model, which begin with the same values.
class CudaTrainerTest : public testing::Test {
 protected:
  void Make(v1::OptimizerSpec::Type optimizer, int delay = 0) {
    EngineOptions options;
    options.model.add_hidden(17);
    options.feature_count = kFeatures;
    options.class_count = kClasses;
    options.max_samples = kSamples;
    options.clock = &clock_;
    v1::LocalStepsSpec& local_steps = options.local_steps.emplace();
    local_steps.set_sync_every(8);
    local_steps.set_fragment_sync_delay(static_cast<uint32_t>(delay));
    local_steps.mutable_optimizer()->set_type(optimizer);
    local_steps.mutable_optimizer()->set_learning_rate(0.02);
    local_steps.mutable_optimizer()->set_epsilon(1e-3);
    cpu_ = CpuTrainer::Create(options).value();
    auto cuda = CudaTrainer::Create(/*device_number=*/0, options);
    ASSERT_TRUE(cuda.ok()) << cuda.status();
    cuda_ = *std::move(cuda);
    Random random(/*seed=*/7);
    values_.clear();
    for (const v1::TableSpec& table : cpu_->tables()) {
      std::vector<float>& values = values_.emplace_back(ElementCount(table));
      for (float& value : values) value = random.UniformFloat() - 0.5f;
    }
    Take();
  }
  void Take() {
    for (uint32_t table = 0; table < values_.size(); ++table) {
      ASSERT_TRUE(cpu_->Take(TableId(table), values_[table]).ok());
      ASSERT_TRUE(cuda_->Take(TableId(table), values_[table]).ok());
    }
  }
  // The same steps of both.
  void Step(int count) {
    std::vector<uint32_t> samples(kSamples);
    std::iota(samples.begin(), samples.end(), 0);
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(cpu_->LoadBatch(dataset_, samples).ok());
      ASSERT_TRUE(cuda_->LoadBatch(dataset_, samples).ok());
      const double expected = cpu_->Step().value().loss_sum;
      EXPECT_NEAR(cuda_->Step().value().loss_sum, expected, 1e-4 * expected);
    }
  }
  // Pushes both, and compares what they push.
  void Push() {
    for (uint32_t table = 0; table < values_.size(); ++table) {
      std::vector<float> expected(values_[table].size()), got(expected.size());
      ASSERT_TRUE(cpu_->Push(TableId(table), values_[table], absl::MakeSpan(expected)).ok());
      ASSERT_TRUE(cuda_->Push(TableId(table), values_[table], absl::MakeSpan(got)).ok());
      double difference = 0, norm = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        difference += std::pow(double{got[i]} - expected[i], 2);
        norm += std::pow(double{expected[i]}, 2);
      }
      EXPECT_GT(norm, 0);
      EXPECT_LE(std::sqrt(difference / norm), 1e-4) << "table " << table;
    }
  }

  RealClock clock_;
  const Dataset dataset_ = RandomDataset(kSamples, kFeatures, kClasses, /*seed=*/5);
  std::unique_ptr<LocalTrainer> cpu_, cuda_;
  std::vector<std::vector<float>> values_;
};

// Without Lion, whose steps are signs: near 0 they depend on the order of sums.
TEST_F(CudaTrainerTest, TakesTheStepsOfTheCpu) {
  for (const auto type :
       {v1::OptimizerSpec::SGD, v1::OptimizerSpec::MOMENTUM, v1::OptimizerSpec::NESTEROV,
        v1::OptimizerSpec::ADAGRAD, v1::OptimizerSpec::ADAM, v1::OptimizerSpec::ADAMW,
        v1::OptimizerSpec::RMSPROP}) {
    SCOPED_TRACE(v1::OptimizerSpec::Type_Name(type));
    Make(type);
    for (int round = 0; round < 2; ++round) {
      Step(4);
      Push();
      Take();
    }
  }
}

TEST_F(CudaTrainerTest, WhatIsDoneBetweenAPushAndItsValuesIsKept) {
  Make(v1::OptimizerSpec::ADAMW, /*delay=*/2);
  Step(3);
  Push();
  Step(2);
  Take();
  Step(1);
  Push();
}

TEST_F(CudaTrainerTest, AnotherOneGoesOnFromTheStateOfThePush) {
  Make(v1::OptimizerSpec::ADAMW, /*delay=*/2);
  OwnState* const first = cuda_->own_state();
  ASSERT_EQ(first->arrays(), 3u);
  std::vector<Slicing> slicings;
  for (const auto& values : values_) slicings.emplace_back(values.size(), 1 << 20);
  first->UseSlices(slicings);
  Step(3);
  Push();
  Step(1);  // which is not in the state
  const SliceKey slice{TableId(0), SliceIndex(0)};
  const auto floats_of = [&](OwnState& state) {
    const Payload saved = state.Save(slice);
    std::vector<float> floats(saved.size_bytes() / sizeof(float));
    saved.CopyTo(absl::MakeSpan(floats));
    return floats;
  };
  const std::vector<float> saved = floats_of(*first);
  EXPECT_EQ(saved.back(), 3) << "steps";
  const std::unique_ptr<LocalTrainer> before = std::move(cuda_);
  Make(v1::OptimizerSpec::ADAMW, /*delay=*/2);
  for (LocalTrainer* const trainer : {cuda_.get(), cpu_.get()}) {
    trainer->own_state()->UseSlices(slicings);
    trainer->own_state()->Load(slice, saved);
    EXPECT_EQ(floats_of(*trainer->own_state()), saved);
  }
  Step(2);
  Push();
}

TEST_F(CudaTrainerTest, BetweenExchangesOnlyBatchesAndResultsAreCopied) {
  Make(v1::OptimizerSpec::ADAM);
  Step(1);
  const Engine::CopiedBytes before = cuda_->copied_bytes().value();
  Step(5);
  const Engine::CopiedBytes after = cuda_->copied_bytes().value();
  EXPECT_EQ(after.to_gpu - before.to_gpu,
            5 * kSamples * (kFeatures * sizeof(float) + sizeof(int32_t)));
  EXPECT_EQ(after.to_host - before.to_host, 5 * sizeof(BatchResult));
  EXPECT_FALSE(cpu_->copied_bytes().has_value());
}

TEST_F(CudaTrainerTest, AForwardWithOtherValuesLeavesItsOwn) {
  Make(v1::OptimizerSpec::SGD);
  Step(2);
  std::vector<absl::Span<const float>> zeros;
  std::vector<std::vector<float>> memory;
  for (const auto& values : values_) memory.emplace_back(values.size());
  for (const auto& values : memory) zeros.emplace_back(values);
  std::vector<uint32_t> samples(kSamples);
  std::iota(samples.begin(), samples.end(), 0);
  ASSERT_TRUE(cuda_->LoadBatch(dataset_, samples).ok());
  const BatchResult result = cuda_->Forward(zeros).value();
  EXPECT_NEAR(result.loss_sum, kSamples * std::log(kClasses), 1e-4);
  Step(1);
  Push();
}

}  // namespace
}  // namespace capstan
