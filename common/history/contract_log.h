#ifndef COMMON_HISTORY_CONTRACT_LOG_H_
#define COMMON_HISTORY_CONTRACT_LOG_H_

#include <vector>

#include "proto/coordinator_service.pb.h"
#include "proto/history.pb.h"

namespace capstan {

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
