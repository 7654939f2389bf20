#ifndef COMMON_TRUST_CALL_RIGHTS_H_
#define COMMON_TRUST_CALL_RIGHTS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/trust/job_token.h"

namespace capstan {

// Who may make a call in a job with tokens.
struct CallRight {
  // As GrpcSecurity::Authorize names it. Of ports that answer HTTP: the method and the path.
  absl::string_view call;
  std::optional<Right> right;  // none: no token is asked for
  absl::string_view caller;    // who makes it, as people call it; empty: it goes with other calls
};

// Every call that a process answers. With tokens, gRPC's own services (health, reflection) are not
// there.
absl::Span<const CallRight> CallRights();

// Null: no process answers it.
const CallRight* FindCall(absl::string_view call);
// The right that a token needs for the call, one that asks for a token.
Right RightOfCall(absl::string_view call);

// Whose calls need just this right, such as "servers, capstan set".
std::string CallersWith(Right right);

}  // namespace capstan

#endif  // COMMON_TRUST_CALL_RIGHTS_H_
