#ifndef COMMON_JOB_EFFECTIVE_JOB_H_
#define COMMON_JOB_EFFECTIVE_JOB_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace capstan {

// The job of a file (empty: the one with all defaults), with the job flags among `args` applied. It
// is valid. INVALID_ARGUMENT also for a flag that cannot matter: a file may hold what its job does
// not use, for flags that choose otherwise, but who gives a flag expects something of it.
absl::StatusOr<v1::JobSpec> EffectiveJob(const std::string& file, std::vector<std::string> args);

}  // namespace capstan

#endif  // COMMON_JOB_EFFECTIVE_JOB_H_
