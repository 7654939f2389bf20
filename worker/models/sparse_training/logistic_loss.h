#ifndef WORKER_MODELS_SPARSE_TRAINING_LOGISTIC_LOSS_H_
#define WORKER_MODELS_SPARSE_TRAINING_LOGISTIC_LOSS_H_

#include "absl/types/span.h"

namespace capstan {

// The sum of the samples' log losses, -log(probability of the label) in nats. Labels are 0 or 1.
// Sets `gradient` to `scale` times the derivatives by the log odds. NaN stays NaN.
double LogisticLoss(absl::Span<const float> log_odds, absl::Span<const float> labels, float scale,
                    absl::Span<float> gradient);

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_LOGISTIC_LOSS_H_
