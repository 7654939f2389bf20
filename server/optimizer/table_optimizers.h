#ifndef SERVER_OPTIMIZER_TABLE_OPTIMIZERS_H_
#define SERVER_OPTIMIZER_TABLE_OPTIMIZERS_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/sparse/row_optimizer.h"

namespace capstan {

// The table's own optimizer. If it has none, the job's.
const v1::OptimizerSpec& OptimizerOf(const v1::JobSpec& job, const v1::TableSpec& table);

// The optimizer of `spec` for the rows of a sparse table with `dim` values. INVALID_ARGUMENT: it is
// of another type, or one of its hyper-parameters is out of range.
absl::StatusOr<std::unique_ptr<RowOptimizer>> MakeRowOptimizer(const v1::OptimizerSpec& spec,
                                                               size_t dim);

// INVALID_ARGUMENT, naming the table and what to correct: its optimizer, if it has one, cannot be
// made, or a dense table's own one is not SGD in a job with dgc.
absl::Status CheckTableOptimizers(const v1::JobSpec& job,
                                  const google::protobuf::RepeatedPtrField<v1::TableSpec>& tables);

// INVALID_ARGUMENT: the job says something of its optimizer, but all tables have their own. With
// dgc it may, because the workers' momentum goes with SGD.
absl::Status CheckJobOptimizerIsUsed(
    const v1::JobSpec& job, const google::protobuf::RepeatedPtrField<v1::TableSpec>& tables);

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_TABLE_OPTIMIZERS_H_
