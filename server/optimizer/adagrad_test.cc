#include "server/optimizer/adagrad.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "server/optimizer/reference_test_util.h"

namespace capstan {
namespace {

Adagrad::Options TestOptions() {
  Adagrad::Options options;
  options.learning_rate = 0.1;
  options.epsilon = 0.2;
  options.weight_decay = 0.3;
  return options;
}

ElementRule Reference(const Adagrad::Options& options) {
  return [options](double gradient, int64_t /*application*/, double& value,
                   std::vector<double>& state) {
    const double decayed = gradient + options.weight_decay * value;
    state[0] += decayed * decayed;
    value -= options.learning_rate * decayed / (std::sqrt(state[0]) + options.epsilon);
  };
}

TEST(AdagradTest, FollowsTheFormula) {
  Adagrad::Options options = TestOptions();
  ExpectFollows(Adagrad(options), Reference(options));
  options.weight_decay = 0;
  ExpectFollows(Adagrad(options), Reference(options));
}

}  // namespace
}  // namespace capstan
