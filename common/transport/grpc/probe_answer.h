#ifndef COMMON_TRANSPORT_GRPC_PROBE_ANSWER_H_
#define COMMON_TRANSPORT_GRPC_PROBE_ANSWER_H_

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan {

// Answers a request for /healthz or /readyz, as AnswerHttp. `readiness` is OK, or says why not. It
// is asked for /readyz alone.
std::optional<std::string> AnswerProbe(absl::string_view received,
                                       absl::FunctionRef<absl::Status()> readiness);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_PROBE_ANSWER_H_
