#include "worker/models/training/evaluate.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <vector>

namespace capstan {
namespace {

TEST(EvaluateTest, CountsEverySampleOnceAcrossBatches) {
  // The loss of a sample is its number. Every fourth sample is wrong.
  std::vector<int> seen(1000);
  const auto evaluation =
      Evaluate(seen.size(), [&](absl::Span<const uint32_t> samples) -> absl::StatusOr<BatchResult> {
        EXPECT_LE(samples.size(), kEvaluationBatch);
        BatchResult result;
        for (const uint32_t sample : samples) {
          ++seen[sample];
          result.loss_sum += sample;
          result.correct += sample % 4 != 0;
        }
        return result;
      });
  ASSERT_TRUE(evaluation.ok());
  EXPECT_EQ(seen, std::vector<int>(1000, 1));
  EXPECT_DOUBLE_EQ(evaluation->accuracy, 0.75);
  EXPECT_DOUBLE_EQ(evaluation->loss, 499.5);
}

TEST(EvaluateTest, AConstantGuessKnowsNothingButHowFrequentLabelsAre) {
  const ConstantGuess even = BestConstantGuess(std::vector<int32_t>{0, 1, 2, 3, 3, 2, 1, 0});
  EXPECT_DOUBLE_EQ(even.accuracy, 0.25);
  EXPECT_DOUBLE_EQ(even.loss, std::log(4));
  const ConstantGuess uneven = BestConstantGuess(std::vector<int32_t>{0, 5, 0, 0});
  EXPECT_DOUBLE_EQ(uneven.accuracy, 0.75);
  EXPECT_DOUBLE_EQ(uneven.loss, 0.75 * std::log(4.0 / 3) + 0.25 * std::log(4));
  EXPECT_EQ(BestConstantGuess(std::vector<int32_t>{7, 7}).loss, 0);
  EXPECT_EQ(BestConstantGuess({}).accuracy, 0);
}

TEST(EvaluateTest, StopsWithTheFirstError) {
  int batches = 0;
  const auto evaluation = Evaluate(/*sample_count=*/1000, [&](absl::Span<const uint32_t>) {
    return ++batches == 2 ? absl::StatusOr<BatchResult>(absl::InternalError("the device failed"))
                          : BatchResult();
  });
  EXPECT_EQ(evaluation.status(), absl::InternalError("the device failed"));
  EXPECT_EQ(batches, 2);
}

TEST(HashParametersTest, IsTheHashOfAllBytesInOrder) {
  const std::vector<float> all = {1, 2, 3, 4, 5};
  const absl::Span<const float> span = absl::MakeConstSpan(all);
  const std::vector<absl::Span<const float>> tables = {span.subspan(0, 2), span.subspan(2)};
  EXPECT_EQ(HashParameters(tables), XXH3_64bits(all.data(), all.size() * sizeof(float)));
}

}  // namespace
}  // namespace capstan
