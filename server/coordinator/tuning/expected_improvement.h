#ifndef SERVER_COORDINATOR_TUNING_EXPECTED_IMPROVEMENT_H_
#define SERVER_COORDINATOR_TUNING_EXPECTED_IMPROVEMENT_H_

namespace capstan {

// E[max(0, target - X)] of a normal X: by how much a value is expected to be below `target`.
// `deviation` is 0 or more. Jones et al., "Efficient Global Optimization of Expensive Black-Box
// Functions", 1998, equation 15.
double ExpectedImprovement(double mean, double deviation, double target);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_TUNING_EXPECTED_IMPROVEMENT_H_
