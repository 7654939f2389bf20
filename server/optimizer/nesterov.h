#ifndef SERVER_OPTIMIZER_NESTEROV_H_
#define SERVER_OPTIMIZER_NESTEROV_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/optimizer/optimizer.h"

namespace capstan {

// Nesterov's accelerated gradient: v = momentum * v + g; w -= learning_rate * (g + momentum * v).
// Nesterov, 1983, in the form that needs the gradient at w only: "simplified Nesterov momentum" of
// Bengio et al., "Advances in Optimizing Recurrent Networks", ICASSP 2013. Keeps v. Immutable,
// thread-safe.
class Nesterov : public Optimizer {
 public:
  struct Options {
    double learning_rate = 0;  // Required; above 0.
    double momentum = 0;       // Required; at least 0 and below 1.
    double weight_decay = 0;   // L2, added to the gradient as weight_decay * w.
  };

  // `options` are in the ranges that MakeOptimizer checks.
  explicit Nesterov(const Options& options);

  int state_count() const override { return 1; }
  void Apply(absl::Span<const float> gradient, const Application& application,
             absl::Span<float> values, absl::Span<const absl::Span<float>> state) const override;

 private:
  const Options options_;
};

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_NESTEROV_H_
