#include "worker/models/sparse_training/step_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;

// A file with `samples` samples for all workers: the key of a sample is its number. It knows its
// length once it was at its end.
class NumberStream : public SampleStream {
 public:
  NumberStream(uint64_t samples, SampleShare share, uint64_t passes)
      : samples_(samples), share_(share), passes_(passes), next_(share.worker) {}

  absl::StatusOr<size_t> Next(size_t most, SparseBatch* batch) override {
    batch->Clear();
    while (batch->size() < most) {
      if (next_ >= samples_) {
        pass_samples_ = samples_;
        if (passes_done_ + 1 == passes_) break;
        ++passes_done_;
        next_ = share_.worker;
      }
      batch->AddKey(next_, 1);
      batch->EndSample(0);
      next_ += share_.num_workers;
    }
    return batch->size();
  }
  uint64_t pass_samples() const override { return pass_samples_; }
  void Cancel() override {}

 private:
  const uint64_t samples_;
  const SampleShare share_;
  const uint64_t passes_;  // 0: without end
  uint64_t passes_done_ = 0;
  uint64_t next_;
  uint64_t pass_samples_ = 0;
};

// The keys of each step.
std::vector<std::vector<uint64_t>> AllSteps(const StepBatches::Options& options,
                                            NumberStream stream) {
  StepBatches batches(options, &stream);
  std::vector<std::vector<uint64_t>> steps;
  SparseBatch batch;
  while (*batches.Next(&batch)) steps.emplace_back(batch.keys().begin(), batch.keys().end());
  EXPECT_FALSE(*batches.Next(&batch)) << "it has ended";
  return steps;
}

StepBatches::Options Epochs(size_t batch_size, uint64_t epochs, SampleShare share = {}) {
  StepBatches::Options options;
  options.batch_size = batch_size;
  options.epochs = epochs;
  options.share = share;
  return options;
}

TEST(StepBatchesTest, AnEpochHasEachSampleOnce) {
  for (const uint64_t passes : {0, 1}) {
    EXPECT_THAT(AllSteps(Epochs(2, 1), NumberStream(5, {}, passes)),
                ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
    EXPECT_THAT(AllSteps(Epochs(2, 1), NumberStream(4, {}, passes)),
                ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  }
}

TEST(StepBatchesTest, AStreamThatHasEndedLeavesEmptySteps) {
  EXPECT_THAT(AllSteps(Epochs(2, 1, {0, 2}), NumberStream(5, {0, 2}, /*passes=*/1)),
              ElementsAre(ElementsAre(0, 2), ElementsAre(4)));
  EXPECT_THAT(AllSteps(Epochs(2, 1, {1, 2}), NumberStream(5, {1, 2}, /*passes=*/1)),
              ElementsAre(ElementsAre(1, 3), ElementsAre()));
}

TEST(StepBatchesTest, BatchesGoOnAcrossEpochs) {
  EXPECT_THAT(AllSteps(Epochs(2, 3), NumberStream(3, {}, /*passes=*/0)),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 0), ElementsAre(1, 2),
                          ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_THAT(AllSteps(Epochs(9, 2), NumberStream(3, {}, /*passes=*/0)),
              ElementsAre(ElementsAre(0, 1, 2, 0, 1, 2)));
}

TEST(StepBatchesTest, AllWorkersHaveEquallyManySteps) {
  for (const uint64_t samples : {4, 5, 7, 8, 9, 100}) {
    for (const uint64_t epochs : {1, 2, 5}) {
      std::vector<uint64_t> seen;
      for (uint64_t worker = 0; worker < 4; ++worker) {
        const SampleShare share = {worker, 4};
        const auto steps = AllSteps(Epochs(2, epochs, share), NumberStream(samples, share, epochs));
        EXPECT_EQ(static_cast<int64_t>(steps.size()), StepsOfEpochs(epochs, samples, 4, 2))
            << samples << " samples, " << epochs << " epochs, worker " << worker;
        for (const auto& step : steps) seen.insert(seen.end(), step.begin(), step.end());
      }
      std::vector<uint64_t> expected;
      for (uint64_t i = 0; i < samples * epochs; ++i) expected.push_back(i % samples);
      EXPECT_THAT(seen, testing::UnorderedElementsAreArray(expected));
    }
  }
}

TEST(StepBatchesTest, StepsAreFullAndEndAtTheirNumber) {
  StepBatches::Options options = Epochs(2, 1);
  options.steps = 4;
  EXPECT_THAT(
      AllSteps(options, NumberStream(3, {}, /*passes=*/0)),
      ElementsAre(ElementsAre(0, 1), ElementsAre(2, 0), ElementsAre(1, 2), ElementsAre(0, 1)));
}

TEST(StepBatchesTest, TooFewSamplesForTheStepsAreAnError) {
  StepBatches::Options options = Epochs(2, 1);
  options.steps = 4;
  NumberStream stream(4, {}, /*passes=*/1);
  StepBatches batches(options, &stream);
  SparseBatch batch;
  EXPECT_TRUE(*batches.Next(&batch));
  EXPECT_TRUE(*batches.Next(&batch));
  EXPECT_EQ(batches.Next(&batch).status().message(),
            "expected samples for 4 steps, got those for 2: give fewer --steps, or --epochs=1 to "
            "train on all samples");
}

TEST(StepBatchesTest, StepsOfEpochsAreThoseOfTheLargestShare) {
  EXPECT_EQ(StepsOfEpochs(/*epochs=*/1, /*pass_samples=*/10, /*num_workers=*/3, /*batch_size=*/2),
            2);
  EXPECT_EQ(StepsOfEpochs(3, 10, 3, 2), 6);
  EXPECT_EQ(StepsOfEpochs(1, 0, 3, 2), 0) << "the number of samples is not known";
}

}  // namespace
}  // namespace capstan
