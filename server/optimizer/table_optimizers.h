#ifndef SERVER_OPTIMIZER_TABLE_OPTIMIZERS_H_
#define SERVER_OPTIMIZER_TABLE_OPTIMIZERS_H_

#include "absl/status/status.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// The table's own optimizer. If it has none, the job's.
const v1::OptimizerSpec& OptimizerOf(const v1::JobSpec& job, const v1::TableSpec& table);

// INVALID_ARGUMENT, naming the table and what to correct: its own optimizer cannot be made, or is
// not SGD in a job with dgc.
absl::Status CheckTableOptimizers(const v1::JobSpec& job,
                                  const google::protobuf::RepeatedPtrField<v1::TableSpec>& tables);

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_TABLE_OPTIMIZERS_H_
