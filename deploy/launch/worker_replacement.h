#ifndef DEPLOY_LAUNCH_WORKER_REPLACEMENT_H_
#define DEPLOY_LAUNCH_WORKER_REPLACEMENT_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "deploy/launch/local_job.h"
#include "deploy/launch/progress_display.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Starts workers in the places of this machine's lost ones. Borrows everything. Not thread-safe.
class WorkerReplacement {
 public:
  WorkerReplacement(LocalJob* job, ProgressDisplay* display) : job_(*job), display_(*display) {}

  // Starts another worker for an ended one, and tells so.
  absl::Status Replace(const LocalJob::Ended& lost, const v1::JobView& view,
                       const std::string& coordinator);
  // Kills lost workers of this machine whose processes run on, such as stopped ones, and whose
  // places are held: their ends are then reported as any. Not those without a known rank.
  void EndSilentWorkers(const v1::JobView& view);

 private:
  LocalJob& job_;
  ProgressDisplay& display_;
  // Incarnations of workers whose processes have ended, or were killed.
  std::set<uint64_t> gone_;
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_WORKER_REPLACEMENT_H_
