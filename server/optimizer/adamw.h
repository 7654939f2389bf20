#ifndef SERVER_OPTIMIZER_ADAMW_H_
#define SERVER_OPTIMIZER_ADAMW_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/optimizer/optimizer.h"

namespace capstan {

// Adam (adam.h) with the weight decay decoupled from the gradient: at application t,
// u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon);
// w -= learning_rate * (u + weight_decay * w).
// Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2, its decay
// multiplied by the learning rate, as is usual. Keeps m, v. Immutable, thread-safe.
class AdamW : public Optimizer {
 public:
  struct Options {
    double learning_rate = 0;  // Required; above 0.
    double beta1 = 0;          // Required; at least 0 and below 1.
    double beta2 = 0;          // Required; at least 0 and below 1.
    double epsilon = 0;        // Required; above 0.
    double weight_decay = 0;   // Part of w that is taken away, times learning_rate.
  };

  // `options` are in the ranges that MakeOptimizer checks.
  explicit AdamW(const Options& options);

  int state_count() const override { return 2; }
  void Apply(absl::Span<const float> gradient, const Application& application,
             absl::Span<float> values, absl::Span<const absl::Span<float>> state) const override;

 private:
  const Options options_;
};

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_ADAMW_H_
