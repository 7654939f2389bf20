#include "worker/models/sparse_training/sparse_logistic_regression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/models/sparse_training/model_test_batch.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::ModelSpec Spec() {
  v1::ModelSpec spec;
  spec.mutable_rows()->set_admitting_push(3);
  spec.mutable_rows()->set_max_idle_steps(40);
  spec.mutable_rows()->set_max_rows(500);
  return spec;
}

TEST(SparseLogisticRegressionTest, HasOneTableOfOneValueARow) {
  const SparseLogisticRegression model(Spec());
  ASSERT_EQ(model.tables().size(), 1u);
  const v1::TableSpec& table = model.tables()[0];
  EXPECT_EQ(table.name(), "weights");
  EXPECT_EQ(table.initial_stddev(), 0);
  EXPECT_EQ(table.sparse().dim(), 1u);
  EXPECT_EQ(table.sparse().admitting_push(), 3u);
  EXPECT_EQ(table.sparse().max_idle_steps(), 40u);
  EXPECT_EQ(table.sparse().max_rows(), 500u);
}

TEST(SparseLogisticRegressionTest, DenseFeaturesAndTheBiasHaveKeysOfTheirOwn) {
  const SparseLogisticRegression model(Spec());
  std::vector<uint64_t> keys;
  model.ListKeys(BatchForTest(), &keys);
  EXPECT_THAT(keys,
              ElementsAre(11, 12, 13, 11, 12, 12, UINT64_MAX - 1, UINT64_MAX - 2, UINT64_MAX));
  EXPECT_GT(SparseLogisticRegression::DenseKey(65535), kMaxFeatureKey);
  model.ListKeys(SparseBatch(), &keys);
  EXPECT_THAT(keys, IsEmpty());
}

TEST(SparseLogisticRegressionTest, LogOddsAreTheSumOfWeightsTimesFeatures) {
  SparseLogisticRegression model(Spec());
  const SparseBatch batch = BatchForTest();
  const ModelMemory memory(model, batch, /*seed=*/1);
  const std::vector<float>& w = memory.rows;
  const auto dense = [&](size_t sample) {
    return double{batch.dense()[2 * sample]} * w[6] + double{batch.dense()[2 * sample + 1]} * w[7] +
           w[8];
  };
  const std::vector<float> log_odds = LogOddsOf(model, batch, memory);
  EXPECT_NEAR(log_odds[0], dense(0) + w[0] + 0.5 * w[1], 1e-5);
  EXPECT_NEAR(log_odds[1], dense(1), 1e-5);
  EXPECT_NEAR(log_odds[2], dense(2) - 2 * w[2] + w[3] + 1.5 * w[4] + 1.5 * w[5], 1e-5);
}

TEST(SparseLogisticRegressionTest, GradientsAreThoseOfDifferences) {
  SparseLogisticRegression model(Spec());
  const SparseBatch batch = BatchForTest();
  ModelMemory memory(model, batch, /*seed=*/2);
  ExpectGradientsOfDifferences(model, batch, memory);
}

}  // namespace
}  // namespace capstan
