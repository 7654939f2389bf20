#ifndef COMMON_ROUTING_TABLE_CHECK_H_
#define COMMON_ROUTING_TABLE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

using TableSpecs = google::protobuf::RepeatedPtrField<v1::TableSpec>;

// Most values in a row of a sparse table.
inline constexpr uint32_t kMostRowDim = 1024;

// The number of elements of each table, 0 of a sparse one. INVALID_ARGUMENT, naming the table:
// names, of the tensors too, are empty or not distinct, the tables of a tensor lie apart or do not
// fit each other, a shape is not positive, a sparse table has one or has limits out of range,
// initial values are not finite or have two sources, there is no table, or the tables are cut into
// more than 2^22 slices of `slice_bytes`.
absl::StatusOr<std::vector<uint64_t>> CheckTables(const TableSpecs& tables, uint64_t slice_bytes);

// Most float32 arrays of own state, shaped like the tables, that a worker keeps from step to step.
inline constexpr uint32_t kMostOwnArrays = 4;

// INVALID_ARGUMENT if the engine of a worker of these tables cannot have `own_arrays` arrays of own
// state, and `push_arrays` (MostPushArrays) for codecs in addition: they
// are more than kMostOwnArrays, or those of one slice do not fit in one message. `table_elements`
// are CheckTables'.
absl::Status CheckOwnArrays(uint32_t own_arrays, uint32_t push_arrays,
                            const std::vector<uint64_t>& table_elements, uint64_t slice_bytes);

// INVALID_ARGUMENT, naming the first difference, unless a worker's `tables` are the same as those
// of `whose`: "the first worker" or "the checkpoint". The error ends with `advice`.
absl::Status CheckSameTables(const TableSpecs& tables, const TableSpecs& expected,
                             absl::string_view whose, absl::string_view advice);

// INVALID_ARGUMENT, naming the table, unless every table with a staleness of its own is one of
// `tables`.
absl::Status CheckTableStaleness(const v1::ConsistencySpec& consistency, const TableSpecs& tables);

// INVALID_ARGUMENT, naming the table: one with replies_mean is sparse, or has an optimizer, or the
// job is not in BSP, or stays, or has a codec or slices that cannot be used for it.
absl::Status CheckMeanTables(const v1::JobSpec& job, const TableSpecs& tables,
                             uint64_t slice_bytes);

// The same for every table with a codec of its own.
absl::Status CheckTableCodecs(const v1::CodecSpec& codec, const TableSpecs& tables);

// INVALID_ARGUMENT, naming the first sparse table, if the job has a file of a model to begin with
// or to end with: these hold dense tables only.
absl::Status CheckSparseTables(const v1::JobSpec& job, const TableSpecs& tables);

// For people: that rows end with a job without checkpoints. Empty: there are no rows, or they stay.
std::string WarningOfLostRows(const v1::JobSpec& job, const TableSpecs& tables);

}  // namespace capstan

#endif  // COMMON_ROUTING_TABLE_CHECK_H_
