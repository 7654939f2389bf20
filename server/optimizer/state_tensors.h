#ifndef SERVER_OPTIMIZER_STATE_TENSORS_H_
#define SERVER_OPTIMIZER_STATE_TENSORS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// The state of a dense table's optimizer as tensors in a model's file, all of them float32.
struct StateTensors {
  std::vector<std::string> arrays;  // optimizer.TABLE.ARRAY, of the table's shape; torch's names
  std::string step;  // optimizer.TABLE.step, a scalar; empty: the optimizer has no state
};

// Those of a table. All are empty for a sparse table, whose rows have their state with them, and
// for one whose optimizer the program runs.
StateTensors StateTensorsOf(const v1::JobSpec& job, const v1::TableSpec& table);

// Those of all `tables`, as tables with their names and shapes. INVALID_ARGUMENT, naming it: a
// table's own name begins like that of such a tensor. Or no table is dense.
absl::StatusOr<google::protobuf::RepeatedPtrField<v1::TableSpec>> StateTables(
    const v1::JobSpec& job, const google::protobuf::RepeatedPtrField<v1::TableSpec>& tables);

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_STATE_TENSORS_H_
