#include "worker/models/sparse_training/deepfm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "worker/models/sparse_training/model_test_batch.h"

namespace capstan {
namespace {

constexpr size_t kDim = 4;
constexpr size_t kFields = 3;
constexpr size_t kDense = 2;

DeepFm::Options OptionsForTest() {
  DeepFm::Options options;
  options.spec.set_type(v1::ModelSpec::DEEPFM);
  options.spec.set_embedding_dim(kDim);
  options.spec.set_embedding_stddev(0.25);
  options.spec.add_hidden(6);
  options.spec.add_hidden(5);
  options.optimizer.set_type(v1::OptimizerSpec::ROW_ADAGRAD);
  options.field_count = kFields;
  options.dense_count = kDense;
  return options;
}

// The log odds of a sample by the equations of the paper, in double precision. `rows` are those of
// all keys of the batch.
double LogOddsByFormula(const SparseBatch& batch, size_t sample, const ModelMemory& memory) {
  const auto vector = [&](size_t i, size_t j) {
    return double{memory.rows[i * (1 + kDim) + 1 + j]} * batch.values()[i];
  };
  const size_t begin = batch.row_starts()[sample], end = batch.row_starts()[sample + 1];
  std::vector<double> inputs(kFields * kDim);
  double sum = 0;
  for (size_t i = begin; i < end; ++i) {
    sum += double{memory.rows[i * (1 + kDim)]} * batch.values()[i];
    for (size_t other = i + 1; other < end; ++other) {
      for (size_t j = 0; j < kDim; ++j) sum += vector(i, j) * vector(other, j);
    }
    for (size_t j = 0; j < kDim; ++j) inputs[batch.fields()[i] * kDim + j] += vector(i, j);
  }
  for (size_t i = 0; i < kDense; ++i) {
    inputs.push_back(batch.dense()[sample * kDense + i]);
    sum += inputs.back() * memory.values.back()[i];
  }
  for (size_t table = 1; table + 2 < memory.values.size(); table += 2) {
    std::vector<double> outputs(memory.values[table + 1].begin(), memory.values[table + 1].end());
    for (size_t in = 0; in < inputs.size(); ++in) {
      for (size_t out = 0; out < outputs.size(); ++out) {
        outputs[out] += inputs[in] * memory.values[table][in * outputs.size() + out];
      }
    }
    const bool is_last = table + 3 == memory.values.size();
    for (double& output : outputs) output = is_last ? output : std::max(output, 0.0);
    inputs = outputs;
  }
  return sum + inputs[0];
}

TEST(DeepFmTest, TablesAreRowsAndDenseLayers) {
  const DeepFm model(OptionsForTest());
  std::vector<std::string> names;
  for (const v1::TableSpec& table : model.tables()) names.push_back(table.name());
  EXPECT_THAT(names, testing::ElementsAre("embeddings", "fc1.weight", "fc1.bias", "fc2.weight",
                                          "fc2.bias", "fc3.weight", "fc3.bias", "dense.weight"));
  EXPECT_EQ(model.row_dim(), 1 + kDim);
  EXPECT_EQ(model.tables()[0].initial_stddev(), 0.25);
  EXPECT_FALSE(model.tables()[0].has_optimizer()) << "the job's";
  EXPECT_THAT(model.tables()[1].shape(), testing::ElementsAre(kFields * kDim + kDense, 6));
  EXPECT_THAT(model.tables()[5].shape(), testing::ElementsAre(5, 1));
  EXPECT_EQ(model.tables()[7].layer(), 3u);
  EXPECT_EQ(model.tables()[1].optimizer().type(), v1::OptimizerSpec::ADAGRAD);
}

TEST(DeepFmTest, LogOddsAreThoseOfTheEquations) {
  DeepFm model(OptionsForTest());
  const SparseBatch batch = BatchForTest();
  const ModelMemory memory(model, batch, /*seed=*/1);
  const std::vector<float> log_odds = LogOddsOf(model, batch, memory);
  for (size_t sample = 0; sample < batch.size(); ++sample) {
    EXPECT_NEAR(log_odds[sample], LogOddsByFormula(batch, sample, memory), 1e-4) << sample;
  }
}

TEST(DeepFmTest, GradientsAreThoseOfDifferences) {
  DeepFm model(OptionsForTest());
  const SparseBatch batch = BatchForTest();
  ModelMemory memory(model, batch, /*seed=*/3);
  ExpectGradientsOfDifferences(model, batch, memory);
}

TEST(DeepFmTest, SamplesNeedNoDenseFeatures) {
  DeepFm::Options options = OptionsForTest();
  options.dense_count = 0;
  DeepFm model(options);
  EXPECT_EQ(model.tables().back().name(), "fc3.bias");
  SparseBatch batch;
  batch.AddKey(1, 0.5f, /*field=*/1);
  batch.AddKey(2, 1, /*field=*/2);
  batch.EndSample(1);
  ModelMemory memory(model, batch, /*seed=*/4);
  ExpectGradientsOfDifferences(model, batch, memory);
}

TEST(DeepFmTest, FailsWithTheFirstErrorOfALayer) {
  DeepFm model(OptionsForTest());
  const SparseBatch batch = BatchForTest();
  const ModelMemory memory(model, batch, /*seed=*/1);
  std::vector<float> log_odds(batch.size());
  const absl::Status status = model.Forward(
      batch, memory.rows, memory.Parameters(),
      [](int layer) { return layer == 2 ? absl::UnavailableError("layer 2") : absl::OkStatus(); },
      absl::MakeSpan(log_odds));
  EXPECT_EQ(status.message(), "layer 2");
}

}  // namespace
}  // namespace capstan
