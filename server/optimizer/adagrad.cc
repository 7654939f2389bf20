#include "server/optimizer/adagrad.h"

#include <glog/logging.h>

#include "kernels/adagrad.h"
#include "kernels/cpu/cpu_stream.h"
#include "server/optimizer/check_lengths.h"

namespace capstan {

Adagrad::Adagrad(const Options& options) : options_(options) {}

void Adagrad::Apply(absl::Span<const float> gradient, const Application& application,
                    absl::Span<float> values, absl::Span<const absl::Span<float>> state) const {
  CheckLengths(*this, gradient, values, state);
  const AdagradCoefficients coefficients = {
      static_cast<float>(RateOf(application, options_.learning_rate)),
      static_cast<float>(options_.epsilon), static_cast<float>(options_.weight_decay)};
  CpuStream stream;
  CHECK(ApplyAdagrad(coefficients, static_cast<int64_t>(values.size()), gradient.data(),
                     values.data(), state[0].data(), stream)
            .ok());
}

}  // namespace capstan
