#ifndef SERVER_OPTIMIZER_ADAM_H_
#define SERVER_OPTIMIZER_ADAM_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/optimizer/optimizer.h"

namespace capstan {

// Adam: m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2; at application t,
// w -= learning_rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
// Kingma and Ba, "Adam", ICLR 2015, algorithm 1. Keeps m, v. Immutable, thread-safe.
class Adam : public Optimizer {
 public:
  struct Options {
    double learning_rate = 0;  // Required; above 0.
    double beta1 = 0;          // Required; at least 0 and below 1.
    double beta2 = 0;          // Required; at least 0 and below 1.
    double epsilon = 0;        // Required; above 0.
    double weight_decay = 0;   // L2, added to the gradient as weight_decay * w.
  };

  // `options` are in the ranges that MakeOptimizer checks.
  explicit Adam(const Options& options);

  int state_count() const override { return 2; }
  void Apply(absl::Span<const float> gradient, const Application& application,
             absl::Span<float> values, absl::Span<const absl::Span<float>> state) const override;

 private:
  const Options options_;
};

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_ADAM_H_
