#include "server/optimizer/momentum.h"

#include <glog/logging.h>

#include "kernels/cpu/cpu_stream.h"
#include "kernels/momentum.h"
#include "server/optimizer/check_lengths.h"

namespace capstan {

Momentum::Momentum(const Options& options) : options_(options) {}

void Momentum::Apply(absl::Span<const float> gradient, const Application& application,
                     absl::Span<float> values, absl::Span<const absl::Span<float>> state) const {
  CheckLengths(*this, gradient, values, state);
  const MomentumCoefficients coefficients = {
      static_cast<float>(RateOf(application, options_.learning_rate)),
      static_cast<float>(options_.momentum), static_cast<float>(options_.weight_decay)};
  CpuStream stream;
  CHECK(ApplyMomentum(coefficients, static_cast<int64_t>(values.size()), gradient.data(),
                      values.data(), state[0].data(), stream)
            .ok());
}

}  // namespace capstan
