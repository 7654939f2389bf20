#ifndef SERVER_OPTIMIZER_CHECK_LENGTHS_H_
#define SERVER_OPTIMIZER_CHECK_LENGTHS_H_

#include "absl/types/span.h"
#include "server/optimizer/optimizer.h"

namespace capstan {

// Dies unless there are state_count() arrays of state and all arrays have one length: what
// Optimizer::Apply asks of its caller.
void CheckLengths(const Optimizer& optimizer, absl::Span<const float> gradient,
                  absl::Span<const float> values, absl::Span<const absl::Span<float>> state);

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_CHECK_LENGTHS_H_
