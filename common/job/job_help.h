#ifndef COMMON_JOB_JOB_HELP_H_
#define COMMON_JOB_JOB_HELP_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan {

// Every flag of the job with its values, unit and default, under headings. Ends in a newline.
std::string JobFlagsHelp();

// The same of the fields that have no flag.
std::string JobFieldsHelp();

// The comment of job.proto on a field or a value of an enum, in one line, such as of
// "ModelSpec.hidden" or "ModelSpec.Type.MLP"; empty: none.
std::string JobComment(absl::string_view name);

}  // namespace capstan

#endif  // COMMON_JOB_JOB_HELP_H_
