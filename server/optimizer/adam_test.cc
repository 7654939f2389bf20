#include "server/optimizer/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "server/optimizer/reference_test_util.h"

namespace capstan {
namespace {

Adam::Options TestOptions() {
  Adam::Options options;
  options.learning_rate = 0.1;
  options.beta1 = 0.8;
  options.beta2 = 0.95;
  options.epsilon = 0.2;
  options.weight_decay = 0.3;
  return options;
}

ElementRule Reference(const Adam::Options& options) {
  return
      [options](double gradient, int64_t application, double& value, std::vector<double>& state) {
        const double decayed = gradient + options.weight_decay * value;
        state[0] = options.beta1 * state[0] + (1 - options.beta1) * decayed;
        state[1] = options.beta2 * state[1] + (1 - options.beta2) * decayed * decayed;
        const double first = state[0] / (1 - std::pow(options.beta1, application));
        const double second = state[1] / (1 - std::pow(options.beta2, application));
        value -= options.learning_rate * first / (std::sqrt(second) + options.epsilon);
      };
}

TEST(AdamTest, FollowsTheFormula) {
  Adam::Options options = TestOptions();
  ExpectFollows(Adam(options), Reference(options));
  options.weight_decay = 0;
  ExpectFollows(Adam(options), Reference(options));
}

}  // namespace
}  // namespace capstan
