#include "server/optimizer/adam.h"

#include <glog/logging.h>

#include <cmath>
#include <cstddef>

#include "server/optimizer/check_lengths.h"

namespace capstan {

Adam::Adam(const Options& options)
    : learning_rate_(options.learning_rate),
      beta1_(options.beta1),
      beta2_(options.beta2),
      epsilon_(static_cast<float>(options.epsilon)),
      weight_decay_(static_cast<float>(options.weight_decay)) {}

void Adam::Apply(absl::Span<const float> gradient, int64_t application, absl::Span<float> values,
                 absl::Span<const absl::Span<float>> state) const {
  CheckLengths(*this, gradient, values, state);
  CHECK_GE(application, 1);
  const double t = static_cast<double>(application);
  const float step = static_cast<float>(learning_rate_ / (1 - std::pow(beta1_, t)));
  const float root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2_, t)));
  const float keep_first = static_cast<float>(beta1_);
  const float add_first = static_cast<float>(1 - beta1_);
  const float keep_second = static_cast<float>(beta2_);
  const float add_second = static_cast<float>(1 - beta2_);
  const float epsilon = epsilon_;
  const float weight_decay = weight_decay_;
  const float* __restrict g = gradient.data();
  float* __restrict w = values.data();
  float* __restrict m = state[0].data();
  float* __restrict v = state[1].data();
  for (size_t i = 0; i < values.size(); ++i) {
    const float decayed = g[i] + weight_decay * w[i];
    m[i] = keep_first * m[i] + add_first * decayed;
    v[i] = keep_second * v[i] + add_second * (decayed * decayed);
    w[i] -= step * m[i] / (std::sqrt(v[i]) * root_scale + epsilon);
  }
}

}  // namespace capstan
