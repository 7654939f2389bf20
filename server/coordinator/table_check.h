#ifndef SERVER_COORDINATOR_TABLE_CHECK_H_
#define SERVER_COORDINATOR_TABLE_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

using TableSpecs = google::protobuf::RepeatedPtrField<v1::TableSpec>;

// The number of elements of each table. INVALID_ARGUMENT, naming the table, unless names are
// distinct and not empty, shapes are positive, initial values are finite, and the tables hold
// something and are cut into at most 2^22 slices of `slice_bytes`.
absl::StatusOr<std::vector<uint64_t>> CheckTables(const TableSpecs& tables, uint64_t slice_bytes);

// INVALID_ARGUMENT, naming the first table that differs, unless `tables` are the same as `first`,
// the first worker's.
absl::Status CheckSameTables(const TableSpecs& tables, const TableSpecs& first);

// INVALID_ARGUMENT, naming the table, unless every table with a staleness of its own is one of
// `tables`.
absl::Status CheckTableStaleness(const v1::ConsistencySpec& consistency, const TableSpecs& tables);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_TABLE_CHECK_H_
