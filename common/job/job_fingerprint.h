#ifndef COMMON_JOB_JOB_FINGERPRINT_H_
#define COMMON_JOB_JOB_FINGERPRINT_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace capstan {

// XXH3-64 of the job's deterministic serialization: what exchanges name their job by. A field that
// is set to its default counts as set.
uint64_t JobFingerprint(const v1::JobSpec& job);

}  // namespace capstan

#endif  // COMMON_JOB_JOB_FINGERPRINT_H_
