#include "server/optimizer/adagrad.h"

#include <cmath>
#include <cstddef>

#include "server/optimizer/check_lengths.h"

namespace capstan {

Adagrad::Adagrad(const Options& options)
    : learning_rate_(static_cast<float>(options.learning_rate)),
      epsilon_(static_cast<float>(options.epsilon)),
      weight_decay_(static_cast<float>(options.weight_decay)) {}

void Adagrad::Apply(absl::Span<const float> gradient, int64_t /*application*/,
                    absl::Span<float> values, absl::Span<const absl::Span<float>> state) const {
  CheckLengths(*this, gradient, values, state);
  const float learning_rate = learning_rate_;
  const float epsilon = epsilon_;
  const float weight_decay = weight_decay_;
  const float* __restrict g = gradient.data();
  float* __restrict w = values.data();
  float* __restrict a = state[0].data();
  for (size_t i = 0; i < values.size(); ++i) {
    const float decayed = g[i] + weight_decay * w[i];
    a[i] += decayed * decayed;
    w[i] -= learning_rate * decayed / (std::sqrt(a[i]) + epsilon);
  }
}

}  // namespace capstan
