#ifndef SERVER_OPTIMIZER_ADAGRAD_H_
#define SERVER_OPTIMIZER_ADAGRAD_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/optimizer/optimizer.h"

namespace capstan {

// Adagrad: a += g^2; w -= learning_rate * g / (sqrt(a) + epsilon).
// Duchi, Hazan and Singer, "Adaptive Subgradient Methods", JMLR 2011, with diagonal matrices.
// Keeps a. Immutable, thread-safe.
class Adagrad : public Optimizer {
 public:
  struct Options {
    double learning_rate = 0;  // Required; above 0.
    double epsilon = 0;        // Required; above 0.
    double weight_decay = 0;   // L2, added to the gradient as weight_decay * w.
  };

  // `options` are in the ranges that MakeOptimizer checks.
  explicit Adagrad(const Options& options);

  int state_count() const override { return 1; }
  void Apply(absl::Span<const float> gradient, const Application& application,
             absl::Span<float> values, absl::Span<const absl::Span<float>> state) const override;

 private:
  const Options options_;
};

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_ADAGRAD_H_
