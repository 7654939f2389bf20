#include "server/optimizer/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "server/optimizer/reference_test_util.h"

namespace capstan {
namespace {

AdamW::Options TestOptions() {
  AdamW::Options options;
  options.learning_rate = 0.1;
  options.beta1 = 0.8;
  options.beta2 = 0.95;
  options.epsilon = 0.2;
  options.weight_decay = 0.3;
  return options;
}

ElementRule Reference(const AdamW::Options& options) {
  return
      [options](double gradient, int64_t application, double& value, std::vector<double>& state) {
        state[0] = options.beta1 * state[0] + (1 - options.beta1) * gradient;
        state[1] = options.beta2 * state[1] + (1 - options.beta2) * gradient * gradient;
        const double first = state[0] / (1 - std::pow(options.beta1, application));
        const double second = state[1] / (1 - std::pow(options.beta2, application));
        value -= options.learning_rate * options.weight_decay * value +
                 options.learning_rate * first / (std::sqrt(second) + options.epsilon);
      };
}

TEST(AdamWTest, FollowsTheFormula) {
  AdamW::Options options = TestOptions();
  ExpectFollows(AdamW(options), Reference(options));
  options.weight_decay = 0;
  ExpectFollows(AdamW(options), Reference(options));
}

}  // namespace
}  // namespace capstan
