#include "server/optimizer/adam.h"

#include <glog/logging.h>

#include <cmath>

#include "kernels/adam.h"
#include "kernels/cpu/cpu_stream.h"
#include "server/optimizer/check_lengths.h"

namespace capstan {
namespace {

// `learning_rate` is that of application `number`.
AdamCoefficients CoefficientsAt(int64_t number, double learning_rate,
                                const Adam::Options& options) {
  const double t = static_cast<double>(number);
  AdamCoefficients coefficients;
  coefficients.step = static_cast<float>(learning_rate / (1 - std::pow(options.beta1, t)));
  coefficients.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, t)));
  coefficients.keep_first = static_cast<float>(options.beta1);
  coefficients.add_first = static_cast<float>(1 - options.beta1);
  coefficients.keep_second = static_cast<float>(options.beta2);
  coefficients.add_second = static_cast<float>(1 - options.beta2);
  coefficients.epsilon = static_cast<float>(options.epsilon);
  coefficients.weight_decay = static_cast<float>(options.weight_decay);
  return coefficients;
}

}  // namespace

Adam::Adam(const Options& options) : options_(options) {}

void Adam::Apply(absl::Span<const float> gradient, const Application& application,
                 absl::Span<float> values, absl::Span<const absl::Span<float>> state) const {
  CheckLengths(*this, gradient, values, state);
  CHECK_GE(application.number, 1);
  const AdamCoefficients coefficients =
      CoefficientsAt(application.number, RateOf(application, options_.learning_rate), options_);
  CpuStream stream;
  CHECK(ApplyAdam(coefficients, static_cast<int64_t>(values.size()), gradient.data(), values.data(),
                  state[0].data(), state[1].data(), stream)
            .ok());
}

}  // namespace capstan
