#include "server/optimizer/sgd.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "server/optimizer/reference_test_util.h"

namespace capstan {
namespace {

Sgd::Options TestOptions() {
  Sgd::Options options;
  options.learning_rate = 0.1;
  options.weight_decay = 0.3;
  return options;
}

ElementRule Reference(const Sgd::Options& options) {
  return [options](double gradient, int64_t /*application*/, double& value,
                   std::vector<double>& /*state*/) {
    value -= options.learning_rate * (gradient + options.weight_decay * value);
  };
}

TEST(SgdTest, FollowsTheFormula) {
  Sgd::Options options = TestOptions();
  ExpectFollows(Sgd(options), Reference(options));
  options.weight_decay = 0;
  ExpectFollows(Sgd(options), Reference(options));
}

}  // namespace
}  // namespace capstan
