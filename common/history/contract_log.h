#ifndef COMMON_HISTORY_CONTRACT_LOG_H_
#define COMMON_HISTORY_CONTRACT_LOG_H_

#include <vector>

#include "proto/coordinator_service.pb.h"
#include "proto/history.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// The promise from step 0 on to all tables without a staleness of their own. `consistency` is that
// of the job's first steps.
v1::ContractRecord FirstContract(const v1::ConsistencySpec& consistency);

// The job's rule for the divisor of the learning rate of pushes outside BSP.
v1::HistoryHeader::UpdateScale UpdateScaleOfJob(const v1::JobSpec& job);

// Turns the promises in a job's views into records of a history, each once. Not thread-safe.
class ContractLog {
 public:
  // The new promises in `view`, without FirstContract. None until a view has tables.
  std::vector<v1::ContractRecord> Update(const v1::JobView& view);

 private:
  int periods_ = 0;  // recorded so far
};

}  // namespace capstan

#endif  // COMMON_HISTORY_CONTRACT_LOG_H_
