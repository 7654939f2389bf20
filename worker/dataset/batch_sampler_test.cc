#include "worker/dataset/batch_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace capstan {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<BatchSampler> Make(uint64_t samples, uint32_t workers, uint32_t batch_size,
                                  uint64_t seed = 1) {
  return BatchSampler::Create({samples, workers, batch_size, seed});
}

// The samples of all workers in the epoch from step `first` on, in order of step and worker.
std::vector<uint32_t> Epoch(BatchSampler& sampler, uint32_t workers, Step first) {
  std::vector<uint32_t> samples;
  for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    for (uint32_t worker = 0; worker < workers; ++worker) {
      const absl::Span<const uint32_t> batch = sampler.Indices(WorkerId(worker), first + step);
      samples.insert(samples.end(), batch.begin(), batch.end());
    }
  }
  return samples;
}

void ExpectEverySampleOnce(std::vector<uint32_t> samples, uint64_t count) {
  ASSERT_EQ(samples.size(), count);
  std::sort(samples.begin(), samples.end());
  for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(samples[i], i);
}

TEST(BatchSamplerTest, EverySampleIsUsedOnceAnEpochInNearlyEqualBatches) {
  int checked = 0;
  for (const uint64_t samples : {1, 2, 7, 32, 100, 359, 1438}) {
    for (const uint32_t workers : {1, 2, 3, 7, 16}) {
      for (const uint32_t batch_size : {1, 2, 5, 32, 100000}) {
        absl::StatusOr<BatchSampler> sampler = Make(samples, workers, batch_size);
        if (!sampler.ok()) continue;  // too few samples
        SCOPED_TRACE(testing::Message() << samples << " " << workers << " " << batch_size);
        ++checked;
        size_t smallest = batch_size, largest = 0;
        for (int64_t step = 0; step < sampler->steps_per_epoch(); ++step) {
          for (uint32_t worker = 0; worker < workers; ++worker) {
            const size_t size = sampler->Indices(WorkerId(worker), Step(step)).size();
            smallest = std::min(smallest, size);
            largest = std::max(largest, size);
          }
        }
        EXPECT_GE(smallest, 1);
        EXPECT_LE(largest, batch_size);
        EXPECT_LE(largest - smallest, 1);
        ExpectEverySampleOnce(Epoch(*sampler, workers, Step(0)), samples);
        ExpectEverySampleOnce(Epoch(*sampler, workers, Step(3 * sampler->steps_per_epoch())),
                              samples);
      }
    }
  }
  EXPECT_GT(checked, 100);
}

TEST(BatchSamplerTest, EpochHasAsFewStepsAsTheBatchSizeAllows) {
  EXPECT_EQ(Make(/*samples=*/128, /*workers=*/2, /*batch_size=*/32)->steps_per_epoch(), 2);
  EXPECT_EQ(Make(/*samples=*/129, /*workers=*/2, /*batch_size=*/32)->steps_per_epoch(), 3);
  EXPECT_EQ(Make(/*samples=*/2, /*workers=*/2, /*batch_size=*/UINT32_MAX)->steps_per_epoch(), 1);
}

TEST(BatchSamplerTest, EpochsAndSeedsHaveOrdersOfTheirOwn) {
  BatchSampler sampler = *Make(/*samples=*/100, /*workers=*/2, /*batch_size=*/10);
  BatchSampler other = *Make(/*samples=*/100, /*workers=*/2, /*batch_size=*/10, /*seed=*/2);
  const std::vector<uint32_t> first = Epoch(sampler, /*workers=*/2, Step(0));
  EXPECT_NE(first, Epoch(sampler, /*workers=*/2, Step(5)));
  EXPECT_NE(first, Epoch(other, /*workers=*/2, Step(0)));
}

TEST(BatchSamplerTest, BatchDoesNotDependOnTheOrderOfCalls) {
  constexpr int64_t kSteps = 30;
  BatchSampler forward = *Make(/*samples=*/100, /*workers=*/3, /*batch_size=*/5);
  std::vector<std::vector<uint32_t>> expected;
  for (int64_t step = 0; step < kSteps; ++step) {
    const absl::Span<const uint32_t> batch = forward.Indices(WorkerId(1), Step(step));
    expected.emplace_back(batch.begin(), batch.end());
  }
  BatchSampler backward = *Make(/*samples=*/100, /*workers=*/3, /*batch_size=*/5);
  for (int64_t step = kSteps - 1; step >= 0; --step) {
    backward.Indices(WorkerId(2), Step(step));
    EXPECT_EQ(backward.Indices(WorkerId(1), Step(step)), absl::MakeSpan(expected[step])) << step;
  }
}

TEST(BatchSamplerTest, EmptyBatchesAreRefusedWithWhatToDo) {
  const absl::Status small_batch =
      Make(/*samples=*/101, /*workers=*/100, /*batch_size=*/1).status();
  EXPECT_EQ(small_batch.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(small_batch.message(), HasSubstr("use a batch_size of at least 2"));
  EXPECT_TRUE(Make(/*samples=*/101, /*workers=*/100, /*batch_size=*/2).ok());
  EXPECT_THAT(Make(/*samples=*/3, /*workers=*/4, /*batch_size=*/32).status().message(),
              HasSubstr("3 for 4 workers with a batch_size of 32 would leave a batch empty: use at "
                        "most 3 workers"));
}

TEST(BatchSamplerTest, OptionsOfZeroAndTooManySamplesAreRefused) {
  EXPECT_FALSE(Make(/*samples=*/0, /*workers=*/1, /*batch_size=*/1).ok());
  EXPECT_FALSE(Make(/*samples=*/1, /*workers=*/0, /*batch_size=*/1).ok());
  EXPECT_FALSE(Make(/*samples=*/1, /*workers=*/1, /*batch_size=*/0).ok());
  EXPECT_FALSE(Make(uint64_t{1} << 32, /*workers=*/1, /*batch_size=*/1).ok());
}

}  // namespace
}  // namespace capstan
