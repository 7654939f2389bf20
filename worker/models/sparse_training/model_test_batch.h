#ifndef WORKER_MODELS_SPARSE_TRAINING_MODEL_TEST_BATCH_H_
#define WORKER_MODELS_SPARSE_TRAINING_MODEL_TEST_BATCH_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"
#include "worker/dataset/sparse/sparse_batch.h"
#include "worker/models/sparse_training/sparse_model.h"

namespace capstan {

// For tests: three samples with 2 dense features and 3 fields. The second one has no keys, and the
// third one has two keys in field 2, one of them twice.
inline SparseBatch BatchForTest() {
  SparseBatch batch;
  Random random(5);
  const auto end_sample = [&](float label) {
    for (int i = 0; i < 2; ++i) batch.AddDense(random.Normal());
    batch.EndSample(label);
  };
  batch.AddKey(11, 1, /*field=*/0);
  batch.AddKey(12, 0.5f, /*field=*/2);
  end_sample(1);
  end_sample(0);
  batch.AddKey(13, -2, /*field=*/2);
  batch.AddKey(11, 1, /*field=*/0);
  batch.AddKey(12, 1.5f, /*field=*/2);
  batch.AddKey(12, 1.5f, /*field=*/2);
  end_sample(1);
  return batch;
}

// For tests: memory of a model's tables, and the rows of a batch, with random values. Equal keys
// have different rows, so that each entry's gradient can be told.
struct ModelMemory {
  ModelMemory(const SparseModel& model, const SparseBatch& batch, uint64_t seed) {
    Random random(seed);
    model.ListKeys(batch, &keys);
    rows.resize(keys.size() * model.row_dim());
    row_gradients.assign(rows.size(), 99);
    for (float& value : rows) value = random.Normal() * 0.5f;
    for (const v1::TableSpec& table : model.tables()) {
      size_t size = table.has_sparse() ? 0 : 1;
      for (const uint64_t length : table.shape()) size *= length;
      values.emplace_back(size);
      gradients.emplace_back(size, 99.0f);
      for (float& value : values.back()) value = random.Normal() * 0.5f;
    }
  }

  std::vector<absl::Span<const float>> Parameters() const { return {values.begin(), values.end()}; }
  std::vector<absl::Span<float>> Gradients() {
    std::vector<absl::Span<float>> spans;
    for (std::vector<float>& one : gradients) spans.push_back(absl::MakeSpan(one));
    return spans;
  }

  std::vector<uint64_t> keys;
  std::vector<float> rows, row_gradients;
  std::vector<std::vector<float>> values, gradients;
};

inline std::vector<float> LogOddsOf(SparseModel& model, const SparseBatch& batch,
                                    const ModelMemory& memory) {
  std::vector<float> log_odds(batch.size());
  const absl::Status status = model.Forward(
      batch, memory.rows, memory.Parameters(), [](int) { return absl::OkStatus(); },
      absl::MakeSpan(log_odds));
  EXPECT_TRUE(status.ok()) << status;
  return log_odds;
}

// Expects that Backward's gradients of sum(weight[i] * log_odds[i]) are those of differences.
inline void ExpectGradientsOfDifferences(SparseModel& model, const SparseBatch& batch,
                                         ModelMemory& memory) {
  std::vector<float> weights;
  for (size_t i = 0; i < batch.size(); ++i) weights.push_back(1.0f - 0.7f * static_cast<float>(i));
  const auto value = [&] {
    double sum = 0;
    const std::vector<float> log_odds = LogOddsOf(model, batch, memory);
    for (size_t i = 0; i < log_odds.size(); ++i) sum += double{weights[i]} * log_odds[i];
    return sum;
  };
  value();
  std::vector<int> ready;
  const absl::Status status = model.Backward(
      batch, memory.rows, memory.Parameters(), weights,
      [&ready](int layer) {
        ready.push_back(layer);
        return absl::OkStatus();
      },
      absl::MakeSpan(memory.row_gradients), memory.Gradients());
  ASSERT_TRUE(status.ok()) << status;
  int expected_layer = static_cast<int>(ready.size());
  for (const int layer : ready) EXPECT_EQ(layer, expected_layer--);
  const auto expect = [&](std::vector<float>& values, const std::vector<float>& gradients,
                          const std::string& name) {
    constexpr float kChange = 1e-2f;
    for (size_t i = 0; i < values.size(); ++i) {
      const float before = values[i];
      values[i] = before + kChange;
      const double above = value();
      values[i] = before - kChange;
      const double below = value();
      values[i] = before;
      EXPECT_NEAR(gradients[i], (above - below) / (2 * kChange), 4e-3) << name << " " << i;
    }
  };
  expect(memory.rows, memory.row_gradients, "rows");
  for (size_t table = 0; table < memory.values.size(); ++table) {
    expect(memory.values[table], memory.gradients[table], model.tables()[table].name());
  }
}

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_MODEL_TEST_BATCH_H_
