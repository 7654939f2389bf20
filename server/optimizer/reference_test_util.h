#ifndef SERVER_OPTIMIZER_REFERENCE_TEST_UTIL_H_
#define SERVER_OPTIMIZER_REFERENCE_TEST_UTIL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "server/optimizer/optimizer.h"

namespace capstan {

// What an optimizer does to one element, in float64. `state` is zero at application 1.
using ElementRule = std::function<void(double gradient, int64_t application, double& value,
                                       std::vector<double>& state)>;

// Expects that `optimizer` computes `rule`, over several applications to slices of many lengths.
void ExpectFollows(const Optimizer& optimizer, const ElementRule& rule);

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_REFERENCE_TEST_UTIL_H_
