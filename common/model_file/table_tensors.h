#ifndef COMMON_MODEL_FILE_TABLE_TENSORS_H_
#define COMMON_MODEL_FILE_TABLE_TENSORS_H_

#include <google/protobuf/repeated_field.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/model_file/safetensors.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Which tensors of a safetensors file the tables of a job have.

// Begins the names of tensors with the optimizer's state.
inline constexpr absl::string_view kStatePrefix = "optimizer.";

// The tensor with an array of a dense table's optimizer: optimizer.TABLE.ARRAY. An array's name has
// no dot, so the last dot ends the name of the table.
std::string StateTensorName(absl::string_view table, absl::string_view array);

// The tables as a file of a model has them: tables that are rows of one tensor are joined, in the
// place of the first one.
google::protobuf::RepeatedPtrField<v1::TableSpec> WholeTensors(
    const google::protobuf::RepeatedPtrField<v1::TableSpec>& tables);

// INVALID_ARGUMENT, with the differences by name, unless a file with this header has exactly these
// tables, with the same shapes, as float32. A sparse one has any number of rows, with or without
// their state. The state of dense tables' optimizers may be there, too, unless some of it is among
// `tables`.
absl::Status CheckTableTensors(const Safetensors& header,
                               const google::protobuf::RepeatedPtrField<v1::TableSpec>& tables);

// Whether the file has the state of the optimizer of one of these tables.
bool HasOptimizerState(const Safetensors& header,
                       const google::protobuf::RepeatedPtrField<v1::TableSpec>& tables);

}  // namespace capstan

#endif  // COMMON_MODEL_FILE_TABLE_TENSORS_H_
