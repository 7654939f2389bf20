#include "server/optimizer/adamw.h"

#include <glog/logging.h>

#include <cmath>

#include "kernels/adamw.h"
#include "kernels/cpu/cpu_stream.h"
#include "server/optimizer/check_lengths.h"

namespace capstan {
namespace {

// `learning_rate` is that of application `number`.
AdamWCoefficients CoefficientsAt(int64_t number, double learning_rate,
                                 const AdamW::Options& options) {
  const double t = static_cast<double>(number);
  AdamWCoefficients coefficients;
  coefficients.step = static_cast<float>(learning_rate / (1 - std::pow(options.beta1, t)));
  coefficients.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, t)));
  coefficients.keep_first = static_cast<float>(options.beta1);
  coefficients.add_first = static_cast<float>(1 - options.beta1);
  coefficients.keep_second = static_cast<float>(options.beta2);
  coefficients.add_second = static_cast<float>(1 - options.beta2);
  coefficients.epsilon = static_cast<float>(options.epsilon);
  coefficients.decay = static_cast<float>(learning_rate * options.weight_decay);
  return coefficients;
}

}  // namespace

AdamW::AdamW(const Options& options) : options_(options) {}

void AdamW::Apply(absl::Span<const float> gradient, const Application& application,
                  absl::Span<float> values, absl::Span<const absl::Span<float>> state) const {
  CheckLengths(*this, gradient, values, state);
  CHECK_GE(application.number, 1);
  const AdamWCoefficients coefficients =
      CoefficientsAt(application.number, RateOf(application, options_.learning_rate), options_);
  CpuStream stream;
  CHECK(ApplyAdamW(coefficients, static_cast<int64_t>(values.size()), gradient.data(),
                   values.data(), state[0].data(), state[1].data(), stream)
            .ok());
}

}  // namespace capstan
