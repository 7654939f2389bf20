#include "worker/models/sparse_training/evaluate_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace capstan {
namespace {

using ::testing::HasSubstr;

// Samples with these labels, in batches of at most two.
class LabelStream : public SampleStream {
 public:
  explicit LabelStream(std::vector<float> labels) : labels_(std::move(labels)) {}

  absl::StatusOr<size_t> Next(size_t most, SparseBatch* batch) override {
    batch->Clear();
    while (batch->size() < most && next_ < labels_.size()) {
      batch->AddKey(next_, 1);
      batch->EndSample(labels_[next_++]);
    }
    return batch->size();
  }
  uint64_t pass_samples() const override { return labels_.size(); }
  void Cancel() override {}

 private:
  const std::vector<float> labels_;
  size_t next_ = 0;
};

v1::ReportResultRequest Evaluate(const std::vector<float>& labels,
                                 const std::vector<float>& scores) {
  LabelStream stream(labels);
  LabelCounts training;
  training.Add({1, 0, 0, 0});
  v1::ReportResultRequest result;
  const absl::Status status = EvaluateStream(
      stream, /*batch_size=*/2, training,
      [&scores](const SparseBatch& batch, absl::Span<float> log_odds) {
        for (size_t i = 0; i < log_odds.size(); ++i) log_odds[i] = scores[batch.keys()[i]];
        return absl::OkStatus();
      },
      result);
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

TEST(EvaluateStreamTest, FiguresAreOverAllBatches) {
  const std::vector<float> scores = {2, -1, 1, -3, 0.5f};
  const v1::ReportResultRequest result = Evaluate({1, 0, 0, 0, 1}, scores);
  EXPECT_EQ(result.test_samples(), 5u);
  EXPECT_DOUBLE_EQ(result.test_accuracy(), 0.8);
  const double loss = std::log1p(std::exp(-2)) + std::log1p(std::exp(-1)) +
                      std::log1p(std::exp(1)) + std::log1p(std::exp(-3)) +
                      std::log1p(std::exp(-0.5));
  EXPECT_NEAR(result.test_loss(), loss / 5, 1e-6);
  // One of the 6 pairs, (0.5, 1), has the wrong order.
  EXPECT_DOUBLE_EQ(result.test_auc(), 5.0 / 6);
  EXPECT_NEAR(result.guess_loss(), -0.25 * std::log(0.25) - 0.75 * std::log(0.75), 1e-12);
  EXPECT_DOUBLE_EQ(result.guess_accuracy(), 0.6);
}

TEST(EvaluateStreamTest, LabelsOfOneKindHaveNoAuc) {
  const v1::ReportResultRequest result = Evaluate({0, 0}, {1, -1});
  EXPECT_FALSE(result.has_test_auc());
  EXPECT_DOUBLE_EQ(result.test_accuracy(), 0.5);
  EXPECT_THAT(result.data_warning(),
              HasSubstr("all 2 samples of the test have the label 0, so that there is no AUC"));
  EXPECT_EQ(Evaluate({0, 1}, {1, -1}).data_warning(), "");
}

TEST(EvaluateStreamTest, TrainingLabelsOfOneKindAreNamed) {
  LabelStream stream({0, 1});
  LabelCounts training;
  training.Add({1, 1, 1});
  v1::ReportResultRequest result;
  const auto log_odds_of = [](const SparseBatch&, absl::Span<float>) { return absl::OkStatus(); };
  ASSERT_TRUE(EvaluateStream(stream, 2, training, log_odds_of, result).ok());
  EXPECT_THAT(result.data_warning(), HasSubstr("all 3 samples for training have the label 1: "));
}

TEST(EvaluateStreamTest, AModelThatDivergedHasNoAucAndALossThatIsNoNumber) {
  const v1::ReportResultRequest result = Evaluate({0, 1}, {NAN, NAN});
  EXPECT_FALSE(result.has_test_auc());
  EXPECT_TRUE(std::isnan(result.test_loss()));
}

TEST(EvaluateStreamTest, ErrorsEndIt) {
  LabelStream stream({0, 1});
  v1::ReportResultRequest result;
  EXPECT_EQ(
      EvaluateStream(
          stream, 2, {},
          [](const SparseBatch&, absl::Span<float>) { return absl::AbortedError("gone"); }, result)
          .message(),
      "gone");
}

}  // namespace
}  // namespace capstan
