// The functions of capstan.h for what all workers do together beside the parameters.
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/exchange/collective.h"
#include "worker/client_api/capstan.h"
#include "worker/client_api/job_access.h"
#include "worker/program/program_collectives.h"
#include "worker/program/program_engine.h"

namespace capstan {
namespace {

absl::StatusOr<CollectiveDtype> DtypeOf(int32_t dtype) {
  switch (dtype) {
    case CAPSTAN_FLOAT32:
      return CollectiveDtype::kFloat32;
    case CAPSTAN_FLOAT64:
      return CollectiveDtype::kFloat64;
    case CAPSTAN_INT64:
      return CollectiveDtype::kInt64;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype: expected CAPSTAN_FLOAT32, CAPSTAN_FLOAT64 or CAPSTAN_INT64, got ", dtype));
}

absl::StatusOr<CollectiveType> TypeOf(int32_t operation) {
  switch (operation) {
    case CAPSTAN_SUM:
      return CollectiveType::kSum;
    case CAPSTAN_MEAN:
      return CollectiveType::kMean;
    case CAPSTAN_MIN:
      return CollectiveType::kMin;
    case CAPSTAN_MAX:
      return CollectiveType::kMax;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "operation: expected CAPSTAN_SUM, CAPSTAN_MEAN, CAPSTAN_MIN or CAPSTAN_MAX, got ",
      operation));
}

// A worker's values in an operation, as a program gives them.
struct Elements {
  void* values;
  const char* shape_name;  // of the argument
  const uint64_t* shape;
  size_t num_dims;
  int32_t dtype;
};

// Puts the result in place of the values.
absl::Status Run(ProgramEngine& engine, CollectiveType type, WorkerId root,
                 const Elements& elements, int64_t timeout_ms) {
  ProgramCollectives::Operation operation;
  operation.type = type;
  operation.root = root;
  ASSIGN_OR_RETURN(operation.dtype, DtypeOf(elements.dtype));
  // More dimensions than that are not read.
  RETURN_IF_ERROR(Annotate(CheckDimensions(elements.num_dims), elements.shape_name));
  ASSIGN_OR_RETURN(const absl::Span<const uint64_t> shape,
                   ItemsAt(elements.shape, elements.num_dims, elements.shape_name));
  RETURN_IF_ERROR(Annotate(CheckElements(shape, operation.dtype), elements.shape_name));
  operation.shape.assign(shape.begin(), shape.end());
  ASSIGN_OR_RETURN(const absl::Span<uint8_t> first,
                   ItemsAt(static_cast<uint8_t*>(elements.values), NumElements(shape), "values"));
  return engine.collectives().Run(
      operation, {first.data(), first.size() * BytesOf(operation.dtype)}, LimitOf(timeout_ms));
}

capstan_status AllReduce(capstan_job* job, int32_t operation, const Elements& elements,
                         int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const CollectiveType type, TypeOf(operation));
    return Run(engine, type, WorkerId(0), elements, timeout_ms);
  });
}

capstan_status Broadcast(capstan_job* job, int32_t root, const Elements& elements,
                         int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    if (root < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("root: expected a worker's rank from 0 on, got ", root));
    }
    return Run(engine, CollectiveType::kBroadcast, WorkerId(static_cast<uint32_t>(root)), elements,
               timeout_ms);
  });
}

}  // namespace
}  // namespace capstan

using capstan::LimitOf;
using capstan::ProgramEngine;
using capstan::WithEngine;

capstan_status capstan_all_reduce(capstan_job* job, int32_t operation, void* values, size_t count,
                                  int32_t dtype, int64_t timeout_ms) {
  const uint64_t shape = count;
  return capstan::AllReduce(job, operation, {values, "count", &shape, 1, dtype}, timeout_ms);
}

capstan_status capstan_all_reduce_tensor(capstan_job* job, int32_t operation, void* values,
                                         const uint64_t* shape, size_t num_dims, int32_t dtype,
                                         int64_t timeout_ms) {
  return capstan::AllReduce(job, operation, {values, "shape", shape, num_dims, dtype}, timeout_ms);
}

capstan_status capstan_broadcast(capstan_job* job, int32_t root, void* values, size_t count,
                                 int32_t dtype, int64_t timeout_ms) {
  const uint64_t shape = count;
  return capstan::Broadcast(job, root, {values, "count", &shape, 1, dtype}, timeout_ms);
}

capstan_status capstan_broadcast_tensor(capstan_job* job, int32_t root, void* values,
                                        const uint64_t* shape, size_t num_dims, int32_t dtype,
                                        int64_t timeout_ms) {
  return capstan::Broadcast(job, root, {values, "shape", shape, num_dims, dtype}, timeout_ms);
}

capstan_status capstan_barrier(capstan_job* job, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) {
    const capstan::ProgramCollectives::Operation barrier;
    return engine.collectives().Run(barrier, {}, LimitOf(timeout_ms));
  });
}

capstan_status capstan_stop(capstan_job* job, int32_t flag, int32_t* stops, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    if (stops == nullptr) {
      return absl::InvalidArgumentError("stops: expected a place for it, got NULL");
    }
    ASSIGN_OR_RETURN(const bool any, engine.collectives().Stop(flag != 0, LimitOf(timeout_ms)));
    *stops = any ? 1 : 0;
    return absl::OkStatus();
  });
}

capstan_status capstan_join(capstan_job* job, int32_t* others_go_on, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    if (others_go_on == nullptr) {
      return absl::InvalidArgumentError("others_go_on: expected a place for it, got NULL");
    }
    ASSIGN_OR_RETURN(const bool goes_on, engine.collectives().Join(LimitOf(timeout_ms)));
    *others_go_on = goes_on ? 1 : 0;
    return absl::OkStatus();
  });
}
