#ifndef SERVER_COORDINATOR_PLANS_LINK_PLAN_H_
#define SERVER_COORDINATOR_PLANS_LINK_PLAN_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/plans/job_plan.h"
#include "server/coordinator/plans/output_plan.h"

namespace capstan {

// How a job cuts and sends its values. What the job leaves open is chosen for its links: all
// workers measure them before the training, if they may be slow and the job has enough bytes to
// send. They also measure for an auto codec. A job that goes on from a checkpoint keeps the
// checkpoint's choice. Not thread-safe.
class LinkPlan : public JobPlan {
 public:
  // `output` must outlive the plan: nobody measures before the file is made.
  LinkPlan(const v1::JobSpec& job, const v1::CheckpointManifest& restored,
           const OutputPlan& output);

  // A worker's measurement. Ignored unless it is awaited.
  absl::Status Report(const v1::HeartbeatRequest& heartbeat) override;
  // Lets workers measure once all members have registered, and chooses once all have measured.
  bool Settle(const JobFacts& facts, JobEvents& events) override;

  // Nothing is left to choose: values can be cut.
  bool has_settled() const { return has_begun_ && !is_measuring_; }
  // The job's own, with what was chosen.
  const v1::SchedulerSpec& scheduler() const { return scheduler_; }
  bool has_measured() const { return !report_.text().empty(); }
  const v1::LinkReport& report() const { return report_; }

  void WriteToView(v1::JobView& view) const override;
  void WriteToStatus(v1::GetStatusReply& status) const override;
  void WriteToManifest(v1::CheckpointManifest& manifest) const override;
  void WriteToState(v1::CoordinatorState& state) const override;
  // What had not been chosen yet is measured again.
  void Restore(const v1::CoordinatorState& state, const JobFacts& facts) override;

 private:
  void Begin(const JobFacts& facts);
  bool MayChooseSlices() const;
  // The slowest link of all workers; empty if one of them tells nothing.
  void SumUp();
  void Choose();

  const OutputPlan& output_;
  const bool has_topk_;
  const double sent_share_;    // bytes of a slice as sent, of those as float32
  const bool has_auto_codec_;  // still to be chosen
  const bool is_restored_;
  v1::SchedulerSpec scheduler_;
  uint64_t model_bytes_ = 0;
  bool has_begun_ = false;
  bool is_measuring_ = false;
  bool chooses_ = false;                              // how values are cut and sent
  std::map<uint32_t, v1::LinkMeasurement> measured_;  // by worker
  v1::LinkReport report_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_LINK_PLAN_H_
