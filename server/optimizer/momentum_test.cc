#include "server/optimizer/momentum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "server/optimizer/reference_test_util.h"

namespace capstan {
namespace {

Momentum::Options TestOptions() {
  Momentum::Options options;
  options.learning_rate = 0.1;
  options.momentum = 0.8;
  options.weight_decay = 0.3;
  return options;
}

ElementRule Reference(const Momentum::Options& options) {
  return [options](double gradient, int64_t /*application*/, double& value,
                   std::vector<double>& state) {
    state[0] = options.momentum * state[0] + gradient + options.weight_decay * value;
    value -= options.learning_rate * state[0];
  };
}

TEST(MomentumTest, FollowsTheFormula) {
  Momentum::Options options = TestOptions();
  ExpectFollows(Momentum(options), Reference(options));
  options.weight_decay = 0;
  ExpectFollows(Momentum(options), Reference(options));
}

}  // namespace
}  // namespace capstan
