#ifndef SERVER_SPARSE_ROW_OPTIMIZER_H_
#define SERVER_SPARSE_ROW_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace capstan {

// Updates rows by their gradients. A row is its values and then the optimizer's state, which is
// zero at first. Immutable, hence thread-safe: the shards of a table share one.
class RowOptimizer {
 public:
  enum class Type {
    kSgd,      // SgdRule of kernels/optimizers.h
    kAdagrad,  // AdagradRule, one sum of squares an element
    // One sum of squares a row: a += mean(g^2); w -= learning_rate * g / (sqrt(a) + epsilon).
    kRowAdagrad,
    kAdam,  // AdamRule; t counts the updates of the row, not the steps
    // FTRL-proximal: s = (sqrt(n + g^2) - sqrt(n)) / alpha; z += g - s * w; n += g^2;
    // w = -sign(z) max(|z| - l1, 0) / ((beta + sqrt(n)) / alpha + l2).
    // McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013, algorithm 1.
    // Its values begin at 0, because they follow from z and n.
    kFtrl,
  };

  struct Options {
    Type type = Type::kSgd;
    double learning_rate = 0.05;  // FTRL: alpha
    double epsilon = 1e-8;        // Adagrad, Adam: added to the denominator
    double beta1 = 0.9;           // Adam: decay of the first moment
    double beta2 = 0.999;         // Adam: decay of the second moment
    double beta = 1;              // FTRL: lowers the first learning rates
    double l1 = 0;                // FTRL: values with |z| up to it are 0
    double l2 = 0;                // FTRL: pulls values toward 0
  };

  // For rows of `dim` values, 1 or more. INVALID_ARGUMENT: an option of the type is out of range.
  static absl::StatusOr<std::unique_ptr<RowOptimizer>> Create(const Options& options, size_t dim);

  Type type() const { return options_.type; }
  size_t dim() const { return dim_; }
  double learning_rate() const { return options_.learning_rate; }
  // Floats of state in a row.
  size_t state_floats() const { return state_floats_; }

  // Applies the `dim` floats at gradients[i] to rows[i], in order. Null rows are left out. The
  // learning rate is multiplied by `rate_factor`, except FTRL's: its values are a function of
  // alpha.
  void Apply(absl::Span<const float* const> gradients, double rate_factor,
             absl::Span<float* const> rows) const;

  // What makes up for moments that began at 0.
  struct AdamCorrection {
    float step_divisor;  // 1 - beta1^t
    float root_scale;    // 1 / sqrt(1 - beta2^t)
  };

 private:
  RowOptimizer(const Options& options, size_t dim);

  const Options options_;
  const size_t dim_;
  const size_t state_floats_;
  // Adam only: element t - 1 is of the t-th update. The last one is also of all later updates.
  std::vector<AdamCorrection> corrections_;
};

}  // namespace capstan

#endif  // SERVER_SPARSE_ROW_OPTIMIZER_H_
