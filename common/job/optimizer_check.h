#ifndef COMMON_JOB_OPTIMIZER_CHECK_H_
#define COMMON_JOB_OPTIMIZER_CHECK_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace capstan {

// What may be given to optimizers. Within these ranges every constant of a rule in
// kernels/optimizers.h and server/sparse is finite in float32, and none is 0 that must not be.
// INVALID_ARGUMENT names the field, as in "optimizer.beta1", and says what was expected and got.

// A learning rate, an epsilon: `least` to 1e9.
absl::Status CheckPositive(absl::string_view field, double value,
                           double least = std::numeric_limits<float>::min());
// A weight decay, a penalty: 0 to 1e9.
absl::Status CheckNotNegative(absl::string_view field, double value);
// A momentum or a beta, the part of an average that each step keeps: at least 0 and, as float32,
// below 1.
absl::Status CheckFraction(absl::string_view field, double value);

// beta2 of LION if it is not given.
inline constexpr double kLionBeta2 = 0.99;

// The optimizer of a dense table. The parameters that its type does not use are not looked at.
absl::Status CheckDenseOptimizer(const v1::OptimizerSpec& spec);
// The arrays of state, each as long as the table, that the optimizer of a dense table keeps:
// torch's names for them, in the order of the servers' arrays. None also for an optimizer that no
// dense table has.
std::vector<std::string> OptimizerArrayNames(const v1::OptimizerSpec& spec);
// The number of these arrays.
uint32_t OptimizerArrays(const v1::OptimizerSpec& spec);
// Whether the optimizer of a dense table has a momentum or a beta1, which a program may change.
bool HasMomentum(const v1::OptimizerSpec& spec);
// What all optimizers of sparse tables have in common.
absl::Status CheckRowSettings(const v1::OptimizerSpec& spec);

}  // namespace capstan

#endif  // COMMON_JOB_OPTIMIZER_CHECK_H_
