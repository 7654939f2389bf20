#ifndef SERVER_COORDINATOR_PLANS_JOB_PLAN_H_
#define SERVER_COORDINATOR_PLANS_JOB_PLAN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator_service.pb.h"
#include "proto/coordinator_state.pb.h"
#include "server/coordinator/members/job_event.h"
#include "server/coordinator/members/job_facts.h"

namespace capstan {

// The job goes on without it.
struct LostServer {
  uint32_t server = 0;
  bool moves_shards = false;  // other servers are the primaries of its shards now
};

// Something that is decided while the job runs, such as its consistency or the step of its next
// checkpoint. It takes members' reports, settles from the facts of the job, and writes to the view.
// JobState owns all plans, and calls them in one order. Not thread-safe.
class JobPlan {
 public:
  virtual ~JobPlan() = default;

  // What a live member reports to this plan, if anything. Settle follows, before any other report.
  // INVALID_ARGUMENT: no member can mean it.
  virtual absl::Status Report(const v1::HeartbeatRequest&) { return absl::OkStatus(); }
  // The view says how values are cut and where they lie. Called once, before it is published.
  virtual void OnPlacement(const JobFacts&) {}
  // A server was lost, and the job goes on. What servers have reported so far counts no more: each
  // live one reports it again, after it has acted on the newest placement. Settle follows.
  virtual void OnServerLost(const LostServer&, const JobFacts&) {}
  // Decides what can be decided now, and notes it in `events`. True if members must hear of it. A
  // plan may have a part of the facts that it changes, as EnteringWorkers has the members.
  virtual bool Settle(const JobFacts& facts, JobEvents& events) = 0;

  // Writes the fields of this plan: for members, for people, and for a job that goes on from the
  // checkpoint. `view` may have older ones.
  virtual void WriteToView(v1::JobView&) const {}
  virtual void WriteToStatus(v1::GetStatusReply&) const {}
  virtual void WriteToManifest(v1::CheckpointManifest&) const {}

  // Writes what a coordinator that takes over needs beside the view.
  virtual void WriteToState(v1::CoordinatorState&) const {}
  // This coordinator has taken over. The facts are those of the state, and of its view. What
  // members report again is not in it. Called once, before all others.
  virtual void Restore(const v1::CoordinatorState&, const JobFacts&) {}
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_JOB_PLAN_H_
