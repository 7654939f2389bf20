#ifndef COMMON_HISTORY_CONTRACT_OF_JOB_H_
#define COMMON_HISTORY_CONTRACT_OF_JOB_H_

#include "proto/history.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// What it promises to all tables that have no staleness of their own, from step 0 on.
v1::ContractRecord ContractOf(const v1::ConsistencySpec& consistency);

// The same of a job.
v1::ContractRecord ContractOfJob(const v1::JobSpec& job);

// What the job's pushes outside BSP have their learning rate divided by.
v1::HistoryHeader::UpdateScale UpdateScaleOfJob(const v1::JobSpec& job);

}  // namespace capstan

#endif  // COMMON_HISTORY_CONTRACT_OF_JOB_H_
