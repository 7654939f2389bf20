#ifndef COMMON_JOB_JOB_FLAGS_H_
#define COMMON_JOB_JOB_FLAGS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace capstan {

// Takes every job flag out of `args` ("--name=value" or "--name value"; for a bool also "--name"
// and "--noname") and sets its field of `job`; the last one wins. What is no job flag, and all that
// follows "--", stays in `args`, in order. --epochs without --steps unsets the job's steps, and
// --consistency other than ssp without --staleness its staleness. Adds the names of the flags that
// it took to `given`, unless that is null. INVALID_ARGUMENT "flag --name: expected ...; got ...".
absl::Status ApplyJobFlags(std::vector<std::string>* args, v1::JobSpec* job,
                           std::set<absl::string_view>* given = nullptr);

// Every job flag with its values, unit and default, under headings. Ends in a newline.
std::string JobFlagsHelp();

}  // namespace capstan

#endif  // COMMON_JOB_JOB_FLAGS_H_
