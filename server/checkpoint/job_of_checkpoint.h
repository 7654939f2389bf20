#ifndef SERVER_CHECKPOINT_JOB_OF_CHECKPOINT_H_
#define SERVER_CHECKPOINT_JOB_OF_CHECKPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// INVALID_ARGUMENT, with each field that differs, unless `job` can go on from the checkpoint in
// `folder`. Fields that say how a job runs may differ: numbers of servers, replicas and steps,
// transport, schedule, consistency, checkpoints, membership, and paths. Fields that say what is
// trained may not, codecs among them, and slices must have the same size.
absl::Status CheckJobOfCheckpoint(const v1::CheckpointManifest& manifest, const v1::JobSpec& job,
                                  const std::string& folder);

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_JOB_OF_CHECKPOINT_H_
