#include "server/optimizer/sgd.h"

#include <cstddef>

#include "server/optimizer/check_lengths.h"

namespace capstan {

Sgd::Sgd(const Options& options)
    : learning_rate_(static_cast<float>(options.learning_rate)),
      weight_decay_(static_cast<float>(options.weight_decay)) {}

void Sgd::Apply(absl::Span<const float> gradient, int64_t /*application*/, absl::Span<float> values,
                absl::Span<const absl::Span<float>> state) const {
  CheckLengths(*this, gradient, values, state);
  const float learning_rate = learning_rate_;
  const float weight_decay = weight_decay_;
  const float* __restrict g = gradient.data();
  float* __restrict w = values.data();
  for (size_t i = 0; i < values.size(); ++i) {
    w[i] -= learning_rate * (g[i] + weight_decay * w[i]);
  }
}

}  // namespace capstan
