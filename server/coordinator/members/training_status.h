#ifndef SERVER_COORDINATOR_MEMBERS_TRAINING_STATUS_H_
#define SERVER_COORDINATOR_MEMBERS_TRAINING_STATUS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/coordinator_service.pb.h"

namespace capstan {

// For tests: the status of a job that trains, and whose workers have done these steps.
inline v1::GetStatusReply TrainingStatus(const std::vector<int64_t>& steps) {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(v1::TRAINING);
  for (size_t i = 0; i < steps.size(); ++i) {
    status.mutable_view()->add_workers()->set_worker(static_cast<uint32_t>(i));
    status.add_progress()->set_steps_done(steps[i]);
  }
  return status;
}

// Adds a period of consistency `mode` from `first_step` on.
inline void AddPeriod(int64_t first_step, v1::ConsistencySpec::Mode mode,
                      v1::GetStatusReply* status) {
  v1::ConsistencyPeriod& period = *status->mutable_view()->add_consistency();
  period.set_first_step(first_step);
  period.mutable_consistency()->set_mode(mode);
}

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_TRAINING_STATUS_H_
