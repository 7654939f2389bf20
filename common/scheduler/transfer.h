#ifndef COMMON_SCHEDULER_TRANSFER_H_
#define COMMON_SCHEDULER_TRANSFER_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"

namespace capstan {

// A message that wants to be sent.
struct Transfer {
  int layer = 0;       // of the model, counted from the input
  uint64_t bytes = 0;  // that it sends
  // Sends it. `sent` must run once, when its bytes are no longer on their way.
  absl::AnyInvocable<void(absl::AnyInvocable<void()> sent)> start;
};

}  // namespace capstan

#endif  // COMMON_SCHEDULER_TRANSFER_H_
