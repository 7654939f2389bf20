#ifndef SERVER_COORDINATOR_MEMBERS_TRAINING_PROGRESS_H_
#define SERVER_COORDINATOR_MEMBERS_TRAINING_PROGRESS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/coordinator_state.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/members/restore_point.h"

namespace capstan {

// How long the workers of a job train, and how many steps each has to do. Not thread-safe.
class TrainingProgress {
 public:
  // Both must outlive this.
  TrainingProgress(const v1::JobSpec& job, const RestorePoint& restored);

  // Another coordinator has begun, as the state says.
  void Restore(const v1::CoordinatorState& state, absl::Time now);
  void Begin(absl::Time now);
  void End(absl::Time now);
  // The time of training so far. It includes the time before the checkpoint from which the job goes
  // on.
  absl::Duration TimeUntil(absl::Time now) const;

  // A worker has trained for this time since the job's start or checkpoint. Nobody else knows how
  // long it was while there was no coordinator.
  void NoteTimeOfWorker(absl::Duration time, absl::Time now);

  // `steps` is the number of steps that a worker has to do; 0: it does not know. INVALID_ARGUMENT:
  // other workers have another number, or the checkpoint has more steps. The first number that was
  // reported stays.
  absl::Status ReportSteps(uint32_t worker, int64_t steps);
  // A worker has ended after `steps` steps, fewer than were reported, as all workers have agreed.
  // INVALID_ARGUMENT: other workers have ended after another number, or more.
  absl::Status ReportEarlyEnd(uint32_t worker, int64_t steps);
  // The number of steps that each worker has to do, in the job or in a round of a job that stays.
  // 0: nobody has reported it.
  int64_t steps_total() const { return steps_total_; }
  // That of before the early end. 0: there is none.
  int64_t steps_announced() const { return steps_announced_; }

 private:
  const v1::JobSpec& job_;
  const RestorePoint& restored_;
  std::optional<absl::Time> began_;  // none: nobody trains
  absl::Duration time_;              // until then
  bool is_restored_ = false;
  int64_t steps_total_ = 0;
  int64_t steps_announced_ = 0;  // as steps_announced()
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_TRAINING_PROGRESS_H_
