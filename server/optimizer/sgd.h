#ifndef SERVER_OPTIMIZER_SGD_H_
#define SERVER_OPTIMIZER_SGD_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/optimizer/optimizer.h"

namespace capstan {

// Stochastic gradient descent: w -= learning_rate * g.
// Robbins and Monro, "A Stochastic Approximation Method", 1951. Immutable, thread-safe.
class Sgd : public Optimizer {
 public:
  struct Options {
    double learning_rate = 0;  // Required; above 0.
    double weight_decay = 0;   // L2, added to the gradient as weight_decay * w.
  };

  // `options` are in the ranges that MakeOptimizer checks.
  explicit Sgd(const Options& options);

  int state_count() const override { return 0; }
  void Apply(absl::Span<const float> gradient, const Application& application,
             absl::Span<float> values, absl::Span<const absl::Span<float>> state) const override;

 private:
  const Options options_;
};

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_SGD_H_
