#include "worker/models/sparse_training/logistic_loss.h"

#include <glog/logging.h>

#include <cmath>
#include <cstddef>

namespace capstan {

double LogisticLoss(absl::Span<const float> log_odds, absl::Span<const float> labels, float scale,
                    absl::Span<float> gradient) {
  CHECK_EQ(log_odds.size(), labels.size());
  CHECK_EQ(log_odds.size(), gradient.size());
  double loss = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double odds = log_odds[i];
    // log(1 + exp(odds)), without an overflow.
    loss += std::log1p(std::exp(-std::abs(odds))) + (odds < 0 ? 0 : odds) - labels[i] * odds;
    const double probability = 1 / (1 + std::exp(-odds));
    gradient[i] = static_cast<float>(scale * (probability - labels[i]));
  }
  return loss;
}

}  // namespace capstan
