#ifndef SERVER_SHARD_CHECK_STEP_H_
#define SERVER_SHARD_CHECK_STEP_H_

#include "absl/status/status.h"
#include "common/exchange/exchange_request.h"

namespace capstan {

// Whether the halves of a step go together, and its numbers are in their ranges, whatever the
// table. INVALID_ARGUMENT says what was expected. OK for a request that is no step.
absl::Status CheckStep(const ExchangeRequest& request);

}  // namespace capstan

#endif  // SERVER_SHARD_CHECK_STEP_H_
