#include "server/optimizer/adagrad.h"

#include <glog/logging.h>

#include "kernels/cpu/cpu_stream.h"
#include "server/optimizer/check_lengths.h"

namespace capstan {

Adagrad::Adagrad(const Options& options)
    : coefficients_{static_cast<float>(options.learning_rate), static_cast<float>(options.epsilon),
                    static_cast<float>(options.weight_decay)} {}

void Adagrad::Apply(absl::Span<const float> gradient, int64_t /*application*/,
                    absl::Span<float> values, absl::Span<const absl::Span<float>> state) const {
  CheckLengths(*this, gradient, values, state);
  CpuStream stream;
  CHECK(ApplyAdagrad(coefficients_, static_cast<int64_t>(values.size()), gradient.data(),
                     values.data(), state[0].data(), stream)
            .ok());
}

}  // namespace capstan
