#ifndef SERVER_COORDINATOR_PLANS_SCHEDULE_PLAN_H_
#define SERVER_COORDINATOR_PLANS_SCHEDULE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "proto/checkpoint.pb.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/plans/job_plan.h"
#include "server/coordinator/plans/tuning/tuner.h"

namespace capstan {

// The step at which a change begins, so that every worker hears of it before. The slowest worker
// has done `steps_done` steps of `step_seconds` each. Under BSP nobody is more than a step ahead of
// it.
int64_t FirstStepAfterNews(int64_t steps_done, double step_seconds);

// The schedule of a tuned job: a period of steps for each of the tuner's points to measure, and a
// last one for its choice. Nobody ever waits for a period. Does nothing in other jobs. Not
// thread-safe.
class SchedulePlan : public JobPlan {
 public:
  // If the job goes on from a checkpoint after tuning, the choice stays.
  explicit SchedulePlan(const v1::JobSpec& job, const v1::CheckpointManifest& restored = {});

  // Begins the first period: values are cut and sent as the view says at first.
  void OnPlacement(const JobFacts& facts) override;
  // The period that is measured now will be measured again.
  void OnServerLost(const LostServer&, const JobFacts&) override { is_void_ = true; }
  // Begins the next period if all workers that compute have measured this one. The period begins a
  // few steps after the slowest worker's step: workers in step get the news in time. A worker
  // beyond that step begins it at its next step.
  bool Settle(const JobFacts& facts, JobEvents& events) override;

  const v1::SchedulePeriod& latest() const { return period_; }
  // The latest period and its purpose.
  std::string LatestText() const;
  bool has_ended() const {
    return restored_.has_chosen() || (tuner_.has_value() && tuner_->has_ended());
  }
  v1::TuningReport Tuning() const;

  void WriteToView(v1::JobView& view) const override;
  void WriteToStatus(v1::GetStatusReply& status) const override;
  // Once the choice is made.
  void WriteToManifest(v1::CheckpointManifest& manifest) const override;
  void WriteToState(v1::CoordinatorState& state) const override;
  // The same measurements lead to the same point. The period is measured again.
  void Restore(const v1::CoordinatorState& state, const JobFacts& facts) override;

 private:
  // Begins the period of the tuner's point, from that step on.
  void BeginPeriod(int64_t first_step);

  const bool is_tuned_;
  const int64_t first_step_;         // of the job, or after the checkpoint
  const v1::TuningReport restored_;  // with a choice, or empty
  std::optional<Tuner> tuner_;
  v1::SchedulePeriod period_;
  bool is_void_ = false;  // steps of the period have waited for other servers
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_SCHEDULE_PLAN_H_
