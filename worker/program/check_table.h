#ifndef WORKER_PROGRAM_CHECK_TABLE_H_
#define WORKER_PROGRAM_CHECK_TABLE_H_

#include "absl/status/status.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// INVALID_ARGUMENT, naming the table, if the coordinator of `job` would refuse the table whatever
// the other tables are: its shape, its initial values, its limits or its optimizer.
absl::Status CheckTable(const v1::TableSpec& table, const v1::JobSpec& job);

}  // namespace capstan

#endif  // WORKER_PROGRAM_CHECK_TABLE_H_
