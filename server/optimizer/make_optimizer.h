#ifndef SERVER_OPTIMIZER_MAKE_OPTIMIZER_H_
#define SERVER_OPTIMIZER_MAKE_OPTIMIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "server/optimizer/optimizer.h"

namespace capstan {

// The optimizer that `spec` describes. INVALID_ARGUMENT when the type is unspecified or one of the
// hyper-parameters that the type uses is out of range; the others are not looked at.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const v1::OptimizerSpec& spec);

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_MAKE_OPTIMIZER_H_
