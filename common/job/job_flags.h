#ifndef COMMON_JOB_JOB_FLAGS_H_
#define COMMON_JOB_JOB_FLAGS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace capstan {

// Removes every job flag from `args` ("--name=value" or "--name value"; for a bool also "--name"
// and "--noname"; for any field "--field=path=value") and sets its field of `job`; the last one
// wins. Other arguments, and everything after "--", stay in `args`, in order. --epochs without
// --steps unsets the job's steps. --consistency other than ssp unsets its staleness, unless
// --staleness is given. One of --local_steps and --round_seconds unsets the other one. Adds the
// keys of the settings to `given`, unless that is null. INVALID_ARGUMENT "flag --name: expected
// ...; got
// ...".
absl::Status ApplyJobFlags(std::vector<std::string>* args, v1::JobSpec* job,
                           std::set<absl::string_view>* given = nullptr);

// The names of all job flags, without dashes.
std::vector<std::string> JobFlagNames();

// What an unknown flag of a person may be meant as: those, and "field=PATH" of fields without one.
std::vector<std::string> JobFlagSpellings();

// The valid job of a file (empty: all defaults) and of the job flags among `args`, with the
// servers' optimizer that local steps have by default written out. INVALID_ARGUMENT also for a flag
// without effect: a person expects something of a flag. A file may have fields without effect, for
// runs with other flags.
absl::StatusOr<v1::JobSpec> EffectiveJob(const std::string& file, std::vector<std::string> args);

}  // namespace capstan

#endif  // COMMON_JOB_JOB_FLAGS_H_
