#include "worker/models/sparse_training/deepfm.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "worker/models/sparse_training/sparse_table.h"

namespace capstan {
namespace {

std::vector<int64_t> WidthsOf(const DeepFm::Options& options) {
  std::vector<int64_t> widths = {static_cast<int64_t>(
      options.field_count * options.spec.embedding_dim() + options.dense_count)};
  for (const uint32_t width : HiddenWidths(options.spec)) widths.push_back(width);
  return widths;
}

// The optimizer of dense tables: ROW_ADAGRAD is for rows alone.
v1::OptimizerSpec DenseOptimizer(v1::OptimizerSpec optimizer) {
  if (optimizer.type() == v1::OptimizerSpec::ROW_ADAGRAD) {
    optimizer.set_type(v1::OptimizerSpec::ADAGRAD);
  }
  return optimizer;
}

}  // namespace

DeepFm::DeepFm(const Options& options)
    : embedding_dim_(options.spec.embedding_dim()),
      row_size_(1 + embedding_dim_),
      field_count_(options.field_count),
      dense_count_(options.dense_count),
      layers_(WidthsOf(options)) {
  CHECK_GT(field_count_, 0u);
  tables_.push_back(SparseTableOf("embeddings", static_cast<uint32_t>(row_size_),
                                  options.spec.embedding_stddev(), options.spec.rows()));
  AddDenseTables(DenseOptimizer(options.optimizer));
}

void DeepFm::AddDenseTables(const v1::OptimizerSpec& optimizer) {
  const int last = layers_.layer_count() - 1;
  for (int layer = 0; layer <= last; ++layer) {
    // He et al., "Delving Deep into Rectifiers", ICCV 2015, equation 10: ReLU halves the variance.
    const double gain = layer == last ? 1.0 : 2.0;
    const std::string name = absl::StrCat("fc", layer + 1);
    AddTable(name + ".weight", 1 + layer, {layers_.inputs(layer), layers_.outputs(layer)},
             std::sqrt(gain / static_cast<double>(layers_.inputs(layer))), optimizer);
    AddTable(name + ".bias", 1 + layer, {layers_.outputs(layer)}, 0, optimizer);
  }
  if (dense_count_ == 0) return;
  AddTable("dense.weight", 1 + last, {static_cast<int64_t>(dense_count_)}, 0, optimizer);
}

void DeepFm::AddTable(const std::string& name, int layer, const std::vector<int64_t>& shape,
                      double initial_stddev, const v1::OptimizerSpec& optimizer) {
  v1::TableSpec& table = tables_.emplace_back();
  table.set_name(name);
  for (const int64_t size : shape) table.add_shape(static_cast<uint64_t>(size));
  table.set_initial_stddev(initial_stddev);
  table.set_layer(static_cast<uint32_t>(layer));
  *table.mutable_optimizer() = optimizer;
}

void DeepFm::ListKeys(const SparseBatch& batch, std::vector<uint64_t>* keys) const {
  keys->assign(batch.keys().begin(), batch.keys().end());
}

absl::Status DeepFm::Forward(const SparseBatch& batch, absl::Span<const float> rows,
                             Parameters parameters,
                             absl::FunctionRef<absl::Status(int layer)> wait_for_layer,
                             absl::Span<float> log_odds) {
  if (batch.size() == 0) return absl::OkStatus();
  CHECK_EQ(rows.size(), batch.keys().size() * row_size_);
  CHECK_EQ(batch.dense_count(), dense_count_);
  const absl::Span<float> inputs = layers_.PrepareInputs(static_cast<int64_t>(batch.size()));
  for (size_t sample = 0; sample < batch.size(); ++sample) {
    FillInputs(batch, sample, rows, inputs.data() + sample * layers_.inputs(0));
  }
  for (int layer = 0; layer < layers_.layer_count(); ++layer) {
    RETURN_IF_ERROR(wait_for_layer(1 + layer));
    RETURN_IF_ERROR(
        layers_.Forward(layer, parameters[WeightTable(layer)], parameters[BiasTable(layer)]));
  }
  const absl::Span<const float> dense_weights =
      dense_count_ == 0 ? absl::Span<const float>() : parameters[DenseTable()];
  sums_.resize(batch.size() * embedding_dim_);
  for (size_t sample = 0; sample < batch.size(); ++sample) {
    log_odds[sample] = layers_.result()[sample] + Linear(batch, sample, rows, dense_weights) +
                       Pairs(batch, sample, rows);
  }
  return absl::OkStatus();
}

float DeepFm::Linear(const SparseBatch& batch, size_t sample, absl::Span<const float> rows,
                     absl::Span<const float> dense_weights) const {
  float sum = 0;
  for (size_t i = batch.row_starts()[sample]; i < batch.row_starts()[sample + 1]; ++i) {
    sum += rows[i * row_size_] * batch.values()[i];
  }
  const float* const dense = batch.dense().data() + sample * dense_count_;
  for (size_t i = 0; i < dense_count_; ++i) sum += dense_weights[i] * dense[i];
  return sum;
}

// Rendle, "Factorization Machines", ICDM'10, lemma 3.1: half of the square of the sum, without the
// squares of the parts.
float DeepFm::Pairs(const SparseBatch& batch, size_t sample, absl::Span<const float> rows) {
  float* const sum = sums_.data() + sample * embedding_dim_;
  std::fill_n(sum, embedding_dim_, 0.0f);
  float squares = 0;
  for (size_t i = batch.row_starts()[sample]; i < batch.row_starts()[sample + 1]; ++i) {
    const float* const vector = rows.data() + i * row_size_ + 1;
    for (size_t j = 0; j < embedding_dim_; ++j) {
      const float part = batch.values()[i] * vector[j];
      sum[j] += part;
      squares += part * part;
    }
  }
  float square_of_sum = 0;
  for (size_t j = 0; j < embedding_dim_; ++j) square_of_sum += sum[j] * sum[j];
  return (square_of_sum - squares) / 2;
}

void DeepFm::FillInputs(const SparseBatch& batch, size_t sample, absl::Span<const float> rows,
                        float* inputs) const {
  std::fill_n(inputs, field_count_ * embedding_dim_, 0.0f);
  for (size_t i = batch.row_starts()[sample]; i < batch.row_starts()[sample + 1]; ++i) {
    DCHECK_LT(batch.fields()[i], field_count_);
    const float* const vector = rows.data() + i * row_size_ + 1;
    float* const of_field = inputs + batch.fields()[i] * embedding_dim_;
    for (size_t j = 0; j < embedding_dim_; ++j) of_field[j] += batch.values()[i] * vector[j];
  }
  const float* const dense = batch.dense().data() + sample * dense_count_;
  std::copy_n(dense, dense_count_, inputs + field_count_ * embedding_dim_);
}

absl::Status DeepFm::Backward(const SparseBatch& batch, absl::Span<const float> rows,
                              Parameters parameters, absl::Span<const float> log_odds_gradient,
                              absl::FunctionRef<absl::Status(int layer)> gradient_ready,
                              absl::Span<float> row_gradients, Gradients gradients) {
  if (dense_count_ > 0) {
    const absl::Span<float> dense = gradients[DenseTable()];
    std::fill(dense.begin(), dense.end(), 0.0f);
    for (size_t i = 0; i < batch.dense().size(); ++i) {
      dense[i % dense_count_] += log_odds_gradient[i / dense_count_] * batch.dense()[i];
    }
  }
  layers_.SetResultGradient(log_odds_gradient);
  for (int layer = layers_.layer_count() - 1; layer >= 0; --layer) {
    RETURN_IF_ERROR(layers_.Backward(layer, parameters[WeightTable(layer)],
                                     gradients[WeightTable(layer)], gradients[BiasTable(layer)]));
    RETURN_IF_ERROR(gradient_ready(1 + layer));
  }
  for (size_t sample = 0; sample < batch.size(); ++sample) {
    AddRowGradients(batch, sample, rows, log_odds_gradient[sample], row_gradients);
  }
  return absl::OkStatus();
}

void DeepFm::AddRowGradients(const SparseBatch& batch, size_t sample, absl::Span<const float> rows,
                             float gradient, absl::Span<float> row_gradients) const {
  const float* const sum = sums_.data() + sample * embedding_dim_;
  const float* const of_inputs = layers_.input_gradient().data() + sample * layers_.inputs(0);
  for (size_t i = batch.row_starts()[sample]; i < batch.row_starts()[sample + 1]; ++i) {
    const float value = batch.values()[i];
    const float* const vector = rows.data() + i * row_size_ + 1;
    const float* const of_field = of_inputs + batch.fields()[i] * embedding_dim_;
    float* const of_row = row_gradients.data() + i * row_size_;
    of_row[0] = gradient * value;
    for (size_t j = 0; j < embedding_dim_; ++j) {
      of_row[1 + j] = value * (gradient * (sum[j] - value * vector[j]) + of_field[j]);
    }
  }
}

}  // namespace capstan
