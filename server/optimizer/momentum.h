#ifndef SERVER_OPTIMIZER_MOMENTUM_H_
#define SERVER_OPTIMIZER_MOMENTUM_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/optimizer/optimizer.h"

namespace capstan {

// Heavy ball: v = momentum * v + g; w -= learning_rate * v.
// Polyak, "Some methods of speeding up the convergence of iteration methods", 1964, with the
// learning rate outside v, as is usual in deep learning. Keeps v. Immutable, thread-safe.
class Momentum : public Optimizer {
 public:
  struct Options {
    double learning_rate = 0;  // Required; above 0.
    double momentum = 0;       // Required; at least 0 and below 1.
    double weight_decay = 0;   // L2, added to the gradient as weight_decay * w.
  };

  // `options` are in the ranges that MakeOptimizer checks.
  explicit Momentum(const Options& options);

  int state_count() const override { return 1; }
  void Apply(absl::Span<const float> gradient, const Application& application,
             absl::Span<float> values, absl::Span<const absl::Span<float>> state) const override;

 private:
  const Options options_;
};

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_MOMENTUM_H_
