#ifndef WORKER_MODELS_SPARSE_TRAINING_DEEPFM_H_
#define WORKER_MODELS_SPARSE_TRAINING_DEEPFM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/models/sparse_training/dense_layers.h"
#include "worker/models/sparse_training/sparse_model.h"

namespace capstan {

// DeepFM: the log odds are the sum of
//   - a linear model of keys and dense features,
//   - the inner products of the vectors of each pair of a sample's keys, times both values,
//   - an MLP of the fields' vectors, one after the other, and of the dense features. A field's
//     vector is the sum of those of its keys, times their values.
// Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction", IJCAI'17,
// equations 1 to 4.
//
// The sparse table "embeddings" has a row of 1 + embedding_dim values for each key: its weight, and
// its vector. Layer 1 + i has fc`i`, and the last layer also the weights of the dense features.
// Not thread-safe.
class DeepFm : public SparseModel {
 public:
  struct Options {
    v1::ModelSpec spec;           // Required
    v1::OptimizerSpec optimizer;  // Required: the job's
    size_t field_count = 0;       // Required: above 0
    size_t dense_count = 0;       // of a sample
  };

  explicit DeepFm(const Options& options);

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
  static int WeightTable(int layer) { return 1 + 2 * layer; }
  static int BiasTable(int layer) { return 2 + 2 * layer; }
  int DenseTable() const { return 1 + 2 * layers_.layer_count(); }

  void AddDenseTables(const v1::OptimizerSpec& optimizer);
  void AddTable(const std::string& name, int layer, const std::vector<int64_t>& shape,
                double initial_stddev, const v1::OptimizerSpec& optimizer);
  // The parts of one sample. Pairs keeps the sum of its keys' vectors in sums_.
  float Linear(const SparseBatch& batch, size_t sample, absl::Span<const float> rows,
               absl::Span<const float> dense_weights) const;
  float Pairs(const SparseBatch& batch, size_t sample, absl::Span<const float> rows);
  void FillInputs(const SparseBatch& batch, size_t sample, absl::Span<const float> rows,
                  float* inputs) const;
  void AddRowGradients(const SparseBatch& batch, size_t sample, absl::Span<const float> rows,
                       float gradient, absl::Span<float> row_gradients) const;

  const size_t embedding_dim_;
  const size_t row_size_;  // 1 + embedding_dim_
  const size_t field_count_;
  const size_t dense_count_;
  DenseLayers layers_;
  std::vector<v1::TableSpec> tables_;
  std::vector<float> sums_;  // row-major [samples, embedding_dim]: of value times vector
};

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_DEEPFM_H_
