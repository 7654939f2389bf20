#ifndef WORKER_MODELS_SPARSE_TRAINING_SPARSE_LOGISTIC_REGRESSION_H_
#define WORKER_MODELS_SPARSE_TRAINING_SPARSE_LOGISTIC_REGRESSION_H_

#include <cstdint>
#include <vector>

#include "worker/models/sparse_training/sparse_model.h"

namespace capstan {

// Logistic regression with one sparse table, "weights", of one value a row. The rows of keys above
// kMaxFeatureKey are the weights of dense features, and the bias. Not thread-safe.
class SparseLogisticRegression : public SparseModel {
 public:
  explicit SparseLogisticRegression(const v1::ModelSpec& spec);

  // The key of the bias, and of the weight of a dense feature below 65536.
  static constexpr uint64_t kBiasKey = UINT64_MAX;
  static uint64_t DenseKey(size_t feature) { return UINT64_MAX - 1 - feature; }

  const std::vector<v1::TableSpec>& tables() const override { return tables_; }
  void ListKeys(const SparseBatch& batch, std::vector<uint64_t>* keys) const override;
  absl::Status Forward(const SparseBatch& batch, absl::Span<const float> rows,
                       Parameters parameters,
                       absl::FunctionRef<absl::Status(int layer)> wait_for_layer,
                       absl::Span<float> log_odds) override;
  absl::Status Backward(const SparseBatch& batch, absl::Span<const float> rows,
                        Parameters parameters, absl::Span<const float> log_odds_gradient,
                        absl::FunctionRef<absl::Status(int layer)> gradient_ready,
                        absl::Span<float> row_gradients, Gradients gradients) override;

 private:
  std::vector<v1::TableSpec> tables_;
};

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_SPARSE_LOGISTIC_REGRESSION_H_
