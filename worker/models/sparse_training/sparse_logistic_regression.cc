#include "worker/models/sparse_training/sparse_logistic_regression.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstddef>

#include "worker/models/sparse_training/sparse_table.h"

namespace capstan {

SparseLogisticRegression::SparseLogisticRegression(const v1::ModelSpec& spec)
    : tables_({SparseTableOf("weights", /*dim=*/1, /*initial_stddev=*/0, spec.rows())}) {}

// The keys of all samples, then those of dense features, then the bias.
void SparseLogisticRegression::ListKeys(const SparseBatch& batch,
                                        std::vector<uint64_t>* keys) const {
  keys->assign(batch.keys().begin(), batch.keys().end());
  if (batch.size() == 0) return;
  for (size_t i = 0; i < batch.dense_count(); ++i) keys->push_back(DenseKey(i));
  keys->push_back(kBiasKey);
}

absl::Status SparseLogisticRegression::Forward(
    const SparseBatch& batch, absl::Span<const float> rows, Parameters /*parameters*/,
    absl::FunctionRef<absl::Status(int layer)> /*wait_for_layer*/, absl::Span<float> log_odds) {
  CHECK_EQ(log_odds.size(), batch.size());
  if (batch.size() == 0) return absl::OkStatus();
  const size_t dense_count = batch.dense_count();
  CHECK_EQ(rows.size(), batch.keys().size() + dense_count + 1);
  const absl::Span<const float> dense_weights = rows.subspan(batch.keys().size(), dense_count);
  for (size_t sample = 0; sample < batch.size(); ++sample) {
    float sum = rows.back();
    const float* const dense = batch.dense().data() + sample * dense_count;
    for (size_t i = 0; i < dense_count; ++i) sum += dense_weights[i] * dense[i];
    for (size_t i = batch.row_starts()[sample]; i < batch.row_starts()[sample + 1]; ++i) {
      sum += rows[i] * batch.values()[i];
    }
    log_odds[sample] = sum;
  }
  return absl::OkStatus();
}

absl::Status SparseLogisticRegression::Backward(
    const SparseBatch& batch, absl::Span<const float> rows, Parameters /*parameters*/,
    absl::Span<const float> log_odds_gradient,
    absl::FunctionRef<absl::Status(int layer)> /*gradient_ready*/, absl::Span<float> row_gradients,
    Gradients /*gradients*/) {
  CHECK_EQ(row_gradients.size(), rows.size());
  const size_t dense_count = batch.dense_count();
  std::fill(row_gradients.begin() + batch.keys().size(), row_gradients.end(), 0.0f);
  float* const of_dense = &row_gradients[batch.keys().size()];
  for (size_t sample = 0; sample < batch.size(); ++sample) {
    const float gradient = log_odds_gradient[sample];
    row_gradients.back() += gradient;
    const float* const dense = batch.dense().data() + sample * dense_count;
    for (size_t i = 0; i < dense_count; ++i) of_dense[i] += gradient * dense[i];
    for (size_t i = batch.row_starts()[sample]; i < batch.row_starts()[sample + 1]; ++i) {
      row_gradients[i] = gradient * batch.values()[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace capstan
