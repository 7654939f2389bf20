#ifndef SERVER_SHARD_CHECK_REQUEST_H_
#define SERVER_SHARD_CHECK_REQUEST_H_

#include "absl/status/status.h"
#include "common/exchange/exchange_request.h"

namespace capstan {

// What depends on the slice of a request.
struct CheckedSlice {
  bool has_initial_from_worker = false;  // the initial values of its table come from worker 0
  bool has_programs = false;  // the workers' programs have their state here, and at no other slice
};

// Whether the parts of a request go together, and its numbers are in their ranges, so far as no
// progress of workers decides. INVALID_ARGUMENT says what was expected.
absl::Status CheckRequest(const ExchangeRequest& request, const CheckedSlice& slice);

}  // namespace capstan

#endif  // SERVER_SHARD_CHECK_REQUEST_H_
