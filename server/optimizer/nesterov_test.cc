#include "server/optimizer/nesterov.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "server/optimizer/reference_test_util.h"

namespace capstan {
namespace {

Nesterov::Options TestOptions() {
  Nesterov::Options options;
  options.learning_rate = 0.1;
  options.momentum = 0.8;
  options.weight_decay = 0.3;
  return options;
}

ElementRule Reference(const Nesterov::Options& options) {
  return [options](double gradient, int64_t /*application*/, double& value,
                   std::vector<double>& state) {
    const double decayed = gradient + options.weight_decay * value;
    state[0] = options.momentum * state[0] + decayed;
    value -= options.learning_rate * (decayed + options.momentum * state[0]);
  };
}

TEST(NesterovTest, FollowsTheFormula) {
  Nesterov::Options options = TestOptions();
  ExpectFollows(Nesterov(options), Reference(options));
  options.weight_decay = 0;
  ExpectFollows(Nesterov(options), Reference(options));
}

}  // namespace
}  // namespace capstan
