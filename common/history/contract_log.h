#ifndef COMMON_HISTORY_CONTRACT_LOG_H_
#define COMMON_HISTORY_CONTRACT_LOG_H_

#include <vector>

#include "proto/coordinator_service.pb.h"
#include "proto/history.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// What a job promises from step 0 on to all tables without a staleness of their own.
v1::ContractRecord ContractOfJob(const v1::JobSpec& job);

// By what the job divides the learning rate of pushes outside BSP.
v1::HistoryHeader::UpdateScale UpdateScaleOfJob(const v1::JobSpec& job);

// Turns what a job's views promise into records of a history, each once. Not thread-safe.
class ContractLog {
 public:
  // What `view` promises and no view before it did, besides what the job promises to all tables
  // from step 0 on. Nothing before the view has tables.
  std::vector<v1::ContractRecord> Update(const v1::JobView& view);

 private:
  int periods_ = 0;  // that are recorded
};

}  // namespace capstan

#endif  // COMMON_HISTORY_CONTRACT_LOG_H_
