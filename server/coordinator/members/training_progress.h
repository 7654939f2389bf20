#ifndef SERVER_COORDINATOR_MEMBERS_TRAINING_PROGRESS_H_
#define SERVER_COORDINATOR_MEMBERS_TRAINING_PROGRESS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "server/coordinator/members/restore_point.h"

namespace capstan {

// How long the workers of a job train, and how many steps each has to do. Not thread-safe.
class TrainingProgress {
 public:
  // Both must outlive this.
  TrainingProgress(const v1::JobSpec& job, const RestorePoint& restored);

  void Begin(absl::Time now);
  void End(absl::Time now);
  // With that before the checkpoint from which the job goes on.
  absl::Duration TimeUntil(absl::Time now) const;

  // A worker has so many steps to do, or 0: it does not know. INVALID_ARGUMENT: others have another
  // number, or the checkpoint has more steps. The first number counts even then.
  absl::Status ReportSteps(uint32_t worker, int64_t steps);
  // Of each worker, or of a round; 0 until the first report.
  int64_t steps_total() const { return steps_total_; }

 private:
  const v1::JobSpec& job_;
  const RestorePoint& restored_;
  std::optional<absl::Time> began_;  // none: nobody trains
  absl::Duration time_;              // until then
  int64_t steps_total_ = 0;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_TRAINING_PROGRESS_H_
