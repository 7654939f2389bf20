#ifndef SERVER_COORDINATOR_PLANS_JOB_MANIFEST_H_
#define SERVER_COORDINATOR_PLANS_JOB_MANIFEST_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "proto/checkpoint.pb.h"
#include "server/coordinator/members/job_facts.h"
#include "server/coordinator/plans/job_plan.h"

namespace capstan {

// The manifest of a checkpoint: what a restored job needs beside the shards.

// What the facts and the plans of the job say. Servers' parts bring the rest.
v1::CheckpointManifest ManifestOfJob(const JobFacts& facts, const std::vector<JobPlan*>& plans);

// Adds the files of all servers' `parts`, by server, and for each worker the step at which it goes
// on and its progress until then. UNAVAILABLE or INVALID_ARGUMENT: a part is of no use.
absl::Status AddParts(const std::map<uint32_t, v1::CheckpointPart>& parts, const JobFacts& facts,
                      v1::CheckpointManifest& manifest);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_JOB_MANIFEST_H_
