#include "worker/training/evaluate.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <vector>

namespace capstan {
namespace {

// Predicts 1 for a positive feature; the loss of a sample is its feature.
class SignModel : public Model {
 public:
  const std::vector<Layer>& layers() const override { return layers_; }
  const std::vector<v1::TableSpec>& tables() const override { return tables_; }
  absl::StatusOr<BatchResult> Forward(const Batch& batch, absl::Span<const absl::Span<const float>>,
                                      absl::FunctionRef<absl::Status(int)>) override {
    BatchResult result;
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      result.loss_sum += batch.features[i];
      result.correct += (batch.features[i] > 0) == (batch.labels[i] == 1);
    }
    return result;
  }
  void Backward(const Batch&, absl::Span<const absl::Span<const float>>,
                absl::Span<const absl::Span<float>>, absl::FunctionRef<void(int)>) override {}

 private:
  std::vector<Layer> layers_;
  std::vector<v1::TableSpec> tables_;
};

TEST(EvaluateTest, CountsEverySampleOnceAcrossBatches) {
  Dataset dataset;
  dataset.feature_count = 1;
  dataset.class_count = 2;
  for (int i = 0; i < 1000; ++i) {
    dataset.features.push_back(i % 4 == 0 ? -1.0f : 1.0f);
    dataset.labels.push_back(1);
  }
  SignModel model;
  const auto evaluation = Evaluate(dataset, model, {});
  ASSERT_TRUE(evaluation.ok());
  EXPECT_DOUBLE_EQ(evaluation->accuracy, 0.75);
  EXPECT_DOUBLE_EQ(evaluation->loss, 0.5);
}

TEST(HashParametersTest, IsTheHashOfAllBytesInOrder) {
  const std::vector<float> all = {1, 2, 3, 4, 5};
  const absl::Span<const float> span = absl::MakeConstSpan(all);
  const std::vector<absl::Span<const float>> tables = {span.subspan(0, 2), span.subspan(2)};
  EXPECT_EQ(HashParameters(tables), XXH3_64bits(all.data(), all.size() * sizeof(float)));
}

}  // namespace
}  // namespace capstan
