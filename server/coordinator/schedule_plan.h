#ifndef SERVER_COORDINATOR_SCHEDULE_PLAN_H_
#define SERVER_COORDINATOR_SCHEDULE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/tuning/tuner.h"

namespace capstan {

// How workers send from which step on, in a job whose schedule is tuned: a period for each point
// that the tuner wants measured, and at the end one with the point that it has chosen. Periods only
// begin, so that nobody ever waits for them. Does nothing in other jobs. Not thread-safe.
class SchedulePlan {
 public:
  explicit SchedulePlan(const v1::JobSpec& job) : job_(job) {}

  // The job has tables of so many elements: its first period is from step 0 on.
  void Begin(const std::vector<uint64_t>& table_elements);

  // Begins the next period when all of these workers, those that compute, have measured this one;
  // false otherwise. It begins a few steps after the slowest one's, so that workers that step
  // together get the news before they are there; a worker that is further begins it at its next
  // step.
  bool Settle(const std::vector<const v1::Progress*>& computing);

  const v1::SchedulePeriod& latest() const { return period_; }
  // The latest period, and what it is for.
  std::string LatestText() const;
  bool has_ended() const { return tuner_.has_value() && tuner_->has_ended(); }
  // The field of the view that tells it.
  void WriteTo(v1::JobView& view) const;
  v1::TuningReport Report() const;

 private:
  // The period of the tuner's point, from that step on.
  void BeginPeriod(int64_t first_step);

  const v1::JobSpec job_;
  std::optional<Tuner> tuner_;
  v1::SchedulePeriod period_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_SCHEDULE_PLAN_H_
