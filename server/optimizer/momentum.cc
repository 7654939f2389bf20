#include "server/optimizer/momentum.h"

#include <cstddef>

#include "server/optimizer/check_lengths.h"

namespace capstan {

Momentum::Momentum(const Options& options)
    : learning_rate_(static_cast<float>(options.learning_rate)),
      momentum_(static_cast<float>(options.momentum)),
      weight_decay_(static_cast<float>(options.weight_decay)) {}

void Momentum::Apply(absl::Span<const float> gradient, int64_t /*application*/,
                     absl::Span<float> values, absl::Span<const absl::Span<float>> state) const {
  CheckLengths(*this, gradient, values, state);
  const float learning_rate = learning_rate_;
  const float momentum = momentum_;
  const float weight_decay = weight_decay_;
  const float* __restrict g = gradient.data();
  float* __restrict w = values.data();
  float* __restrict v = state[0].data();
  for (size_t i = 0; i < values.size(); ++i) {
    v[i] = momentum * v[i] + (g[i] + weight_decay * w[i]);
    w[i] -= learning_rate * v[i];
  }
}

}  // namespace capstan
