#ifndef TESTS_CLUSTER_LOCAL_STEPS_JOBS_H_
#define TESTS_CLUSTER_LOCAL_STEPS_JOBS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "proto/job.pb.h"
#include "server/coordinator/job_outcome.h"
#include "tests/cluster/local_cluster.h"
#include "worker/engine/engine.h"

namespace capstan {

// Rounds of `local_steps`, of two workers.
v1::JobSpec RoundsJob(uint32_t local_steps, uint64_t rounds);

ClusterResult RunRounds(const v1::JobSpec& job, const EngineFactory& make_engine);
// Expects a good end.
JobOutcome RunRoundsToTheEnd(const v1::JobSpec& job, const EngineFactory& make_engine);

std::string NewFolderOfRounds();

// The largest difference between the model with one hidden layer that the job writes and
// TrainWithLocalSteps.
double DistanceFromReference(v1::JobSpec job, const EngineFactory& make_engine);

// The hash of a job of 9 rounds, and that of one that goes on from a checkpoint of an earlier
// round.
std::pair<uint64_t, uint64_t> HashesOfOneAndTwoLives(v1::JobSpec job,
                                                     const EngineFactory& make_engine);

}  // namespace capstan

#endif  // TESTS_CLUSTER_LOCAL_STEPS_JOBS_H_
