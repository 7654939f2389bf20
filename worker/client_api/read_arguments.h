#ifndef WORKER_CLIENT_API_READ_ARGUMENTS_H_
#define WORKER_CLIENT_API_READ_ARGUMENTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client_api/capstan.h"
#include "worker/program/client_job.h"

namespace capstan {

// The structs that a program gives to capstan.h, read and checked. They may be those of an older
// header. INVALID_ARGUMENT names the field, what was expected, and what was given.

// What the struct leaves out is taken from the environment (CAPSTAN_RANK or RANK,
// CAPSTAN_COORDINATOR and CAPSTAN_KEYS). Null: all of it.
absl::StatusOr<ClientJob::Options> ReadConnectOptions(const capstan_connect_options* options);
struct GivenTable {
  v1::TableSpec spec;
  std::vector<float> initial;  // empty, unless this program gives them
  bool elsewhere = false;
};
absl::StatusOr<GivenTable> ReadTable(const capstan_table* argument);
absl::StatusOr<v1::TableSpec> ReadSparseTable(const capstan_sparse_table* argument);
// Checks what v1::LocalSteps cannot hold.
absl::StatusOr<v1::LocalSteps> ReadLocalSteps(const capstan_local_steps* argument);

}  // namespace capstan

#endif  // WORKER_CLIENT_API_READ_ARGUMENTS_H_
