#ifndef WORKER_MODELS_SPARSE_TRAINING_SPARSE_MODEL_H_
#define WORKER_MODELS_SPARSE_TRAINING_SPARSE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "proto/coordinator_service.pb.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {

// The largest key of a feature in a file. Larger ones belong to the models themselves.
inline constexpr uint64_t kMaxFeatureKey = UINT64_MAX - 65537;

// RESOURCE_EXHAUSTED if the rows of a batch take more than 1 GiB: `keys` rows of `dim` values. The
// error ends with `what_to_do`.
inline absl::Status CheckRowsOfBatch(size_t keys, size_t dim, absl::string_view what_to_do) {
  const size_t most = (size_t{1} << 28) / dim;
  if (keys <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "expected at most ", most, " features in a batch, got ", keys, "; ", what_to_do));
}

// A model of two classes. Table 0 is sparse and is layer 0: a batch needs the rows of some keys.
// All others are dense. Forward keeps its activations for Backward. Computes on the calling thread.
// Not thread-safe.
class SparseModel {
 public:
  static constexpr TableId kRows = TableId(0);
  // Of each table, row-major; empty for kRows.
  using Parameters = absl::Span<const absl::Span<const float>>;
  using Gradients = absl::Span<const absl::Span<float>>;

  virtual ~SparseModel() = default;

  virtual const std::vector<v1::TableSpec>& tables() const = 0;
  size_t row_dim() const { return tables()[kRows.value()].sparse().dim(); }

  // Sets the keys of the rows that Forward reads, one or several times each. Empty for a batch
  // without samples.
  virtual void ListKeys(const SparseBatch& batch, std::vector<uint64_t>* keys) const = 0;

  // Computes the log odds of label 1, log(p / (1 - p)), of each sample. `rows` has the row of each
  // of ListKeys' keys. Calls `wait_for_layer` with each layer from 1 on before it reads the layer's
  // parameters, and returns its first error.
  virtual absl::Status Forward(const SparseBatch& batch, absl::Span<const float> rows,
                               Parameters parameters,
                               absl::FunctionRef<absl::Status(int layer)> wait_for_layer,
                               absl::Span<float> log_odds) = 0;

  // Computes all gradients from those of the log odds of Forward's last batch, which is not empty.
  // Calls `gradient_ready` with each layer from the last one to 1, once the layer's parameters are
  // no longer read. `row_gradients` is shaped like `rows`: those of one key are to be added up.
  virtual absl::Status Backward(const SparseBatch& batch, absl::Span<const float> rows,
                                Parameters parameters, absl::Span<const float> log_odds_gradient,
                                absl::FunctionRef<absl::Status(int layer)> gradient_ready,
                                absl::Span<float> row_gradients, Gradients gradients) = 0;
};

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_SPARSE_MODEL_H_
