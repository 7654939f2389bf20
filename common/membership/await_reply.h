#ifndef COMMON_MEMBERSHIP_AWAIT_REPLY_H_
#define COMMON_MEMBERSHIP_AWAIT_REPLY_H_

#include <utility>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/one_shot.h"
#include "common/membership/coordinator_endpoint.h"

namespace capstan {

// Makes a call of the coordinator, as in AwaitReply(coordinator, &CoordinatorEndpoint::GetJob, {},
// clock), and blocks until it is answered. For a process's own main thread.
template <typename Request, typename Reply>
absl::StatusOr<Reply> AwaitReply(
    CoordinatorEndpoint& coordinator,
    void (CoordinatorEndpoint::*method)(Request, CoordinatorEndpoint::Callback<Reply>),
    Request request, Clock& clock) {
  OneShot<absl::StatusOr<Reply>> answer(&clock);
  (coordinator.*method)(std::move(request),
                        [&answer](absl::StatusOr<Reply> reply) { answer.Set(std::move(reply)); });
  return answer.Wait();
}

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_AWAIT_REPLY_H_
