#include "server/optimizer/sgd.h"

#include <glog/logging.h>

#include "kernels/cpu/cpu_stream.h"
#include "kernels/sgd.h"
#include "server/optimizer/check_lengths.h"

namespace capstan {

Sgd::Sgd(const Options& options) : options_(options) {}

void Sgd::Apply(absl::Span<const float> gradient, const Application& application,
                absl::Span<float> values, absl::Span<const absl::Span<float>> state) const {
  CheckLengths(*this, gradient, values, state);
  const SgdCoefficients coefficients = {
      static_cast<float>(RateOf(application, options_.learning_rate)),
      static_cast<float>(options_.weight_decay)};
  CpuStream stream;
  CHECK(ApplySgd(coefficients, static_cast<int64_t>(values.size()), gradient.data(), values.data(),
                 stream)
            .ok());
}

}  // namespace capstan
