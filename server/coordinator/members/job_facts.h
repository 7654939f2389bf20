#ifndef SERVER_COORDINATOR_MEMBERS_JOB_FACTS_H_
#define SERVER_COORDINATOR_MEMBERS_JOB_FACTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/members/job_tables.h"
#include "server/coordinator/members/member_key.h"
#include "server/coordinator/members/member_registry.h"
#include "server/coordinator/members/restore_point.h"
#include "server/coordinator/members/training_progress.h"

namespace capstan {

// What the coordinator knows of a job: who is in it and what they have reported, its phase, the
// time. JobState and Registration keep it up to date, EnteringWorkers its members, ReplicaPlan the
// servers of its shards; other plans only read it. Not thread-safe.
struct JobFacts {
  // `job` is valid. `clock` must outlive the facts.
  JobFacts(v1::JobSpec job, const Clock& clock, RestorePoint restored = {});
  JobFacts(const JobFacts&) = delete;
  JobFacts& operator=(const JobFacts&) = delete;

  bool has_ended() const { return view.phase() == v1::DONE || view.phase() == v1::FAILED; }
  // Whether the workers have done their steps. The job has not ended.
  bool has_trained() const { return view.phase() == v1::EVALUATING || view.phase() == v1::SAVING; }
  // The training has begun, and the job has not ended.
  bool is_running() const { return view.phase() == v1::TRAINING || has_trained(); }
  // It is known on which server each shard is.
  bool is_placed() const { return view.epoch() > 0; }
  // Whether each shard has a second copy, if it is whole.
  bool has_copies() const { return job.cluster().replicas() > 1; }
  // No worker gets beyond this step, unless it begins later. 0: it is not known yet.
  int64_t LastStep() const;
  // The worker's progress, with that before the checkpoint from which the job goes on.
  v1::Progress ProgressOf(uint32_t worker) const;
  // Declared dead or left so far, also those replaced.
  int WorkersLost() const;
  int ServersLost() const;
  // Those of the view, in order.
  std::vector<MemberKey> LiveMembers() const;
  v1::JobView ViewWithTables() const;

  const v1::JobSpec job;
  const RestorePoint restored;
  const Clock& clock;
  MemberRegistry members;
  JobTables tables;
  TrainingProgress training;
  v1::JobView view;            // the newest; without the tables, which may be many
  uint64_t phase_version = 0;  // the first view of the phase
  // The first view with the newest epoch. What a server has reported before it acted on this view
  // is of other shards than it has now.
  uint64_t placement_version = 0;
  // Of parameters of each shard; 0: it has no slices. From phase PLACING on.
  std::vector<uint64_t> shard_bytes;
  bool has_other_bits;                            // as in v1::CheckpointManifest
  std::optional<v1::ReportResultRequest> result;  // of the evaluator
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_JOB_FACTS_H_
