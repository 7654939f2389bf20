#ifndef COMMON_EXCHANGE_RATES_H_
#define COMMON_EXCHANGE_RATES_H_

#include <optional>

namespace capstan {

// What a program may change of an optimizer from step to step. Each takes the place of the
// optimizer's own. None: the optimizer's own.
struct Rates {
  std::optional<double> learning_rate = std::nullopt;  // finite, 0 or more
  // The momentum of MOMENTUM, NESTEROV and RMSPROP, and beta1 of ADAM, ADAMW and LION: at least 0
  // and, as float32, below 1. Other optimizers have none, and no sparse table has one.
  std::optional<double> momentum = std::nullopt;
};

}  // namespace capstan

#endif  // COMMON_EXCHANGE_RATES_H_
