#ifndef DEPLOY_LAUNCH_MEMBER_REPLACEMENT_H_
#define DEPLOY_LAUNCH_MEMBER_REPLACEMENT_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "deploy/launch/local_job.h"
#include "deploy/launch/progress_display.h"
#include "deploy/launch/restart_plan.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Starts servers and workers in the places of this machine's lost ones. Borrows everything. Not
// thread-safe.
class MemberReplacement {
 public:
  // `restarts` may be null: nobody is replaced. A server that is lost to the job has the time
  // `server_patience` to end by itself.
  MemberReplacement(LocalJob* job, RestartPlan* restarts, ProgressDisplay* display,
                    absl::Duration server_patience)
      : job_(*job), restarts_(restarts), display_(*display), server_patience_(server_patience) {}

  // Starts another worker for an ended one, and tells so.
  absl::Status ReplaceWorker(const LocalJob::Ended& lost, const v1::JobView& view,
                             const std::string& coordinator);
  // The same for a server of a job with copies, which trains, evaluates or saves. If the plan
  // starts no other one, tells why.
  absl::Status FollowServerLoss(const LocalJob::Ended& lost, const v1::GetStatusReply& status,
                                const std::string& coordinator);
  // Kills lost members of this machine whose processes run on, such as stopped ones: their ends are
  // then reported as any. Workers only if their places are held and their ranks are known.
  void EndSilentMembers(const v1::JobView& view, absl::Time now);

 private:
  void EndSilentWorkers(const v1::JobView& view);
  void EndSilentServers(const v1::JobView& view, absl::Time now);

  LocalJob& job_;
  RestartPlan* const restarts_;
  ProgressDisplay& display_;
  const absl::Duration server_patience_;
  // Incarnations of workers whose processes have ended, or were killed.
  std::set<uint64_t> gone_;
  // When a server that runs was first seen to be lost, by its address.
  std::map<std::string, absl::Time> silent_servers_;
};

// Whether the loss of a server is no failure of the job, as others may have copies of its shards.
bool MaySurviveServerLoss(const v1::JobView& view);

// Whether the coordinator has declared this server of the job dead. True if it had not come.
bool IsLossKnown(const LocalJob::Ended& server, const v1::JobView& view);

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_MEMBER_REPLACEMENT_H_
