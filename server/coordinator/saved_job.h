#ifndef SERVER_COORDINATOR_SAVED_JOB_H_
#define SERVER_COORDINATOR_SAVED_JOB_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/coordinator_state.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/members/job_facts.h"
#include "server/coordinator/plans/job_plan.h"
#include "server/coordinator/state/state_store.h"

namespace capstan {

// What a coordinator keeps of its job, and how another one goes on with it.

// The version of the first view in a term. The views of a later term have larger versions than all
// views of an earlier one.
inline constexpr uint64_t FirstVersionOf(uint64_t term) { return term << 40; }

// What the facts and the plans of the job say. It lacks what belongs to the coordinator's process:
// the term, the fingerprint, the token, and the constants' hash.
v1::CoordinatorState StateOfJob(const JobFacts& facts, const std::vector<JobPlan*>& plans);

// What does not change any more.
v1::JobConstants ConstantsOfJob(const JobFacts& facts);

// FAILED_PRECONDITION: it is another job than `job`. INVALID_ARGUMENT: it contradicts itself.
absl::Status CheckSavedJob(const SavedJob& saved, const v1::JobSpec& job);

// Takes them from a state that CheckSavedJob has accepted. Views begin with this version.
void RestoreFacts(const SavedJob& saved, uint64_t version, JobFacts& facts);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_SAVED_JOB_H_
