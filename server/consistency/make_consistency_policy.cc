#include "server/consistency/make_consistency_policy.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/consistency/async_policy.h"
#include "server/consistency/bsp_policy.h"
#include "server/consistency/ssp_policy.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<ConsistencyPolicy>> MakeConsistencyPolicy(ConsistencyMode mode,
                                                                         int64_t staleness) {
  if (staleness < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("staleness: expected 0 or more steps, got ", staleness));
  }
  switch (mode) {
    case ConsistencyMode::kBsp:
      return std::make_unique<BspPolicy>();
    case ConsistencyMode::kSsp:
      return std::make_unique<SspPolicy>(staleness);
    case ConsistencyMode::kAsync:
      return std::make_unique<AsyncPolicy>();
  }
  return absl::InvalidArgumentError("consistency mode: expected BSP, SSP or ASYNC");
}

}  // namespace capstan
