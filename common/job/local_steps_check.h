#ifndef COMMON_JOB_LOCAL_STEPS_CHECK_H_
#define COMMON_JOB_LOCAL_STEPS_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/routing/table_check.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// Most fragments of a round.
inline constexpr uint32_t kMostFragments = 1024;

// The largest momentum of a servers' optimizer with local steps, but under BSP. Elsewhere each
// worker's round is an update by itself, and with more momentum they add up to too large steps.
inline constexpr double kMostMomentumOfRounds = 0.5;

// The rounds of a job's built-in model.
v1::LocalSteps RoundsOf(const v1::LocalStepsSpec& local_steps);

// For people: "sync_every 50, fragments 4, fragment_sync_delay 10".
std::string LocalStepsText(const v1::LocalSteps& local_steps);

// INVALID_ARGUMENT, naming the field, unless workers can have these local steps: as
// v1::RegisterWorkerRequest says of them and of is_replaceable.
absl::Status CheckLocalSteps(const v1::LocalSteps& local_steps, bool is_replaceable);

// INVALID_ARGUMENT unless workers with local steps can have these tables in the job, under its
// consistency: a table is sparse, or as CheckMomentumOfRounds.
absl::Status CheckTablesOfRounds(const v1::JobSpec& job, const TableSpecs& tables);

// INVALID_ARGUMENT: under this consistency, the servers' optimizer has too much momentum for local
// steps.
absl::Status CheckOuterMomentum(const v1::ConsistencySpec& consistency,
                                const v1::OptimizerSpec& optimizer);

// INVALID_ARGUMENT, naming the table: under this consistency, its optimizer, or that of the job,
// has too much momentum for local steps.
absl::Status CheckMomentumOfRounds(const v1::ConsistencySpec& consistency,
                                   const v1::OptimizerSpec& optimizer_of_job,
                                   const TableSpecs& tables);

}  // namespace capstan

#endif  // COMMON_JOB_LOCAL_STEPS_CHECK_H_
