#ifndef SERVER_CONSISTENCY_MAKE_CONSISTENCY_POLICY_H_
#define SERVER_CONSISTENCY_MAKE_CONSISTENCY_POLICY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/consistency/consistency_policy.h"

namespace capstan {

enum class ConsistencyMode { kBsp, kSsp, kAsync };

// `staleness` is in steps and matters to SSP only. INVALID_ARGUMENT when it is negative.
absl::StatusOr<std::unique_ptr<ConsistencyPolicy>> MakeConsistencyPolicy(ConsistencyMode mode,
                                                                         int64_t staleness);

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_MAKE_CONSISTENCY_POLICY_H_
