#ifndef SERVER_COORDINATOR_LINK_PLAN_H_
#define SERVER_COORDINATOR_LINK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// How a job cuts and sends its values. What the job leaves open is chosen for its links: all
// workers measure them before the training, if they may be slow and the job has enough bytes to
// send. They also measure for an auto codec. A job that goes on from a checkpoint keeps the
// checkpoint's choice. Not thread-safe.
class LinkPlan {
 public:
  explicit LinkPlan(const v1::JobSpec& job, const v1::CheckpointManifest& restored = {});

  // All members have registered, on these hosts (v1::RegisterServerRequest::host). Called once.
  void Begin(const std::set<std::string>& hosts, const std::vector<uint64_t>& table_elements);
  bool has_begun() const { return has_begun_; }
  // The workers have to measure.
  bool is_measuring() const { return is_measuring_; }
  // A worker's measurement. Ignored unless it is awaited.
  void Report(uint32_t worker, const v1::LinkMeasurement& links);
  // Chooses once `num_workers` have reported. False: not yet, or nothing is awaited.
  bool Settle(size_t num_workers);

  // The job's own, with what was chosen.
  const v1::SchedulerSpec& scheduler() const { return scheduler_; }
  bool has_measured() const { return !report_.text().empty(); }
  const v1::LinkReport& report() const { return report_; }

 private:
  bool MayChooseSlices() const;
  void Choose();

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

#endif  // SERVER_COORDINATOR_LINK_PLAN_H_
