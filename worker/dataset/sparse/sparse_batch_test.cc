#include "worker/dataset/sparse/sparse_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two samples: with two keys, and with none.
void AddTwoSamples(SparseBatch* batch) {
  batch->AddKey(7, 0.5f, /*field=*/0);
  batch->AddKey(9, 1.0f, /*field=*/3);
  batch->AddDense(1.5f);
  batch->AddDense(2.5f);
  batch->EndSample(/*label=*/1);
  batch->AddDense(3.5f);
  batch->AddDense(4.5f);
  batch->EndSample(/*label=*/0);
}

TEST(SparseBatchTest, SamplesKeepTheirParts) {
  SparseBatch batch;
  AddTwoSamples(&batch);

  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch.dense_count(), 2u);
  EXPECT_THAT(batch.row_starts(), ElementsAre(0, 2, 2));
  const SparseSample first = batch.Sample(0);
  EXPECT_EQ(first.label, 1);
  EXPECT_THAT(first.keys, ElementsAre(7, 9));
  EXPECT_THAT(first.values, ElementsAre(0.5f, 1.0f));
  EXPECT_THAT(first.fields, ElementsAre(0, 3));
  EXPECT_THAT(first.dense, ElementsAre(1.5f, 2.5f));
  const SparseSample second = batch.Sample(1);
  EXPECT_EQ(second.label, 0);
  EXPECT_THAT(second.keys, IsEmpty());
  EXPECT_THAT(second.fields, IsEmpty());
  EXPECT_THAT(second.dense, ElementsAre(3.5f, 4.5f));
}

TEST(SparseBatchTest, SamplesNeedNeitherFieldsNorDenseFeatures) {
  SparseBatch batch;
  batch.AddKey(7, 0.5f);
  batch.EndSample(1);
  EXPECT_FALSE(batch.has_fields());
  EXPECT_THAT(batch.Sample(0).keys, ElementsAre(7));
  EXPECT_THAT(batch.Sample(0).fields, IsEmpty());
  EXPECT_THAT(batch.Sample(0).dense, IsEmpty());
}

TEST(SparseBatchTest, ClearedBatchUsesTheSameMemoryAgain) {
  SparseBatch batch;
  AddTwoSamples(&batch);
  const uint64_t* const keys = batch.keys().data();
  const float* const dense = batch.dense().data();
  batch.Clear();
  EXPECT_EQ(batch.size(), 0u);
  EXPECT_THAT(batch.keys(), IsEmpty());

  AddTwoSamples(&batch);
  EXPECT_EQ(batch.keys().data(), keys);
  EXPECT_EQ(batch.dense().data(), dense);
  EXPECT_THAT(batch.row_starts(), ElementsAre(0, 2, 2));
}

TEST(SparseBatchTest, TruncatedBatchKeepsItsFirstSamples) {
  SparseBatch batch;
  AddTwoSamples(&batch);
  AddTwoSamples(&batch);
  batch.Truncate(3);
  EXPECT_THAT(batch.labels(), ElementsAre(1, 0, 1));
  EXPECT_THAT(batch.keys(), ElementsAre(7, 9, 7, 9));
  EXPECT_THAT(batch.fields(), ElementsAre(0, 3, 0, 3));
  EXPECT_EQ(batch.dense().size(), 6u);
  AddTwoSamples(&batch);
  EXPECT_THAT(batch.Sample(3).keys, ElementsAre(7, 9));
  batch.Truncate(0);
  EXPECT_EQ(batch.size(), 0u);
  EXPECT_THAT(batch.keys(), IsEmpty());
}

TEST(SparseBatchDeathTest, KeysWithAndWithoutFieldsDoNotMix) {
  SparseBatch batch;
  batch.AddKey(7, 0.5f);
  batch.EndSample(1);
  batch.AddKey(8, 0.5f, /*field=*/1);
  EXPECT_DEATH(batch.EndSample(1), "fields");
}

}  // namespace
}  // namespace capstan
