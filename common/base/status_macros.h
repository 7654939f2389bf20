#ifndef COMMON_BASE_STATUS_MACROS_H_
#define COMMON_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

// Returns from the current function if the Status `expression` is not OK.
#define RETURN_IF_ERROR(expression)                                  \
  do {                                                               \
    ::absl::Status return_if_error_status = (expression);            \
    if (!return_if_error_status.ok()) return return_if_error_status; \
  } while (false)

// Evaluates a StatusOr; assigns its value to `target`, or returns its error.
#define ASSIGN_OR_RETURN(target, expression) \
  CAPSTAN_ASSIGN_OR_RETURN_(CAPSTAN_CONCAT_(status_or_, __LINE__), target, expression)

#define CAPSTAN_CONCAT_INNER_(a, b) a##b
#define CAPSTAN_CONCAT_(a, b) CAPSTAN_CONCAT_INNER_(a, b)
#define CAPSTAN_ASSIGN_OR_RETURN_(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) return result.status();                   \
  target = std::move(result).value()

namespace capstan {

// The same error with "context: " in front of its message; OK stays OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace capstan

#endif  // COMMON_BASE_STATUS_MACROS_H_
