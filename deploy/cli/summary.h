#ifndef DEPLOY_CLI_SUMMARY_H_
#define DEPLOY_CLI_SUMMARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// The coordinator's summary of a job (a JSON object) as lines for people; leaves out what it lacks.
// INVALID_ARGUMENT when it is no JSON object.
absl::StatusOr<std::string> FormatSummary(absl::string_view json);

}  // namespace capstan

#endif  // DEPLOY_CLI_SUMMARY_H_
