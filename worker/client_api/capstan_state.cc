// The functions of capstan.h for the state of optimizers, and of the worker itself.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/exchange/exchange_request.h"
#include "worker/client_api/capstan.h"
#include "worker/client_api/job_access.h"
#include "worker/program/client_job.h"
#include "worker/program/program_engine.h"
#include "worker/program/program_optimizer_state.h"
#include "worker/program/program_worker_state.h"

using capstan::ClientJob;
using capstan::JobOf;
using capstan::LimitOf;
using capstan::ProgramEngine;
using capstan::WithEngine;
using capstan::WithJob;

int32_t capstan_optimizer_arrays(const capstan_job* job, int32_t table) {
  const ClientJob* const client = JobOf(job);
  return client == nullptr ? -1 : client->OptimizerArraysOf(table);
}

capstan_status capstan_read_optimizer_state(capstan_job* job, int32_t table, int32_t array,
                                            float* values, size_t count, int64_t* steps,
                                            int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const capstan::TableId id, capstan::IdOf(table));
    ASSIGN_OR_RETURN(const auto to, capstan::ItemsAt(values, count, "values"));
    if (steps == nullptr || array < 0) {
      return absl::InvalidArgumentError("expected an array from 0 on, and a place for the steps");
    }
    uint64_t counted = 0;
    RETURN_IF_ERROR(engine.optimizer_state().Read(id, static_cast<uint32_t>(array), to, &counted,
                                                  LimitOf(timeout_ms)));
    *steps = static_cast<int64_t>(counted);
    return absl::OkStatus();
  });
}

capstan_status capstan_load_optimizer_state(capstan_job* job, int32_t table, int32_t array,
                                            const float* values, size_t count, int64_t steps,
                                            int64_t timeout_ms) {
  return WithJob(job, [&](ClientJob& client) -> absl::Status {
    ASSIGN_OR_RETURN(const capstan::TableId id, capstan::IdOf(table));
    ASSIGN_OR_RETURN(const auto from, capstan::ItemsAt(values, count, "values"));
    if (array < 0) return absl::InvalidArgumentError("array: expected 0 or more");
    RETURN_IF_ERROR(capstan::ProgramOptimizerState::CheckLoaded(from, steps));
    return client.LoadOptimizerState(
        {id, static_cast<uint32_t>(array), static_cast<uint64_t>(steps),
         std::make_shared<const std::vector<float>>(from.begin(), from.end())},
        LimitOf(timeout_ms));
  });
}

capstan_status capstan_keep_table(capstan_job* job, int32_t table, const float* const* arrays,
                                  size_t num_arrays, size_t count, int32_t is_last,
                                  int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const capstan::TableId id, capstan::IdOf(table));
    ASSIGN_OR_RETURN(const auto pointers, capstan::ItemsAt(arrays, num_arrays, "arrays"));
    if (num_arrays > 1 + capstan::kMaxTableStateArrays) {
      return absl::InvalidArgumentError(absl::StrCat("num_arrays: expected at most ",
                                                     1 + capstan::kMaxTableStateArrays, ", got ",
                                                     num_arrays));
    }
    std::vector<absl::Span<const float>> numbers;
    for (const float* const array : pointers) {
      ASSIGN_OR_RETURN(numbers.emplace_back(), capstan::ItemsAt(array, count, "an array"));
    }
    return engine.optimizer_state().Keep(id, numbers, is_last != 0, LimitOf(timeout_ms));
  });
}

capstan_status capstan_worker_state_put(capstan_job* job, const char* name, const void* bytes,
                                        size_t size) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const auto piece,
                     capstan::ItemsAt(static_cast<const uint8_t*>(bytes), size, "bytes"));
    return engine.worker_state().Put(name == nullptr ? "" : name, piece);
  });
}

capstan_status capstan_worker_state_get(capstan_job* job, const char* name, void* bytes,
                                        size_t* size) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    if (name == nullptr || size == nullptr || (bytes == nullptr && *size > 0)) {
      return absl::InvalidArgumentError("expected a name, a size, and a place for as many bytes");
    }
    const std::shared_ptr<const std::string> piece = engine.worker_state().Get(name);
    if (piece == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the job does not go on from a checkpoint with a state ", name, " of this worker"));
    }
    if (*size >= piece->size()) std::memcpy(bytes, piece->data(), piece->size());
    *size = piece->size();
    return absl::OkStatus();
  });
}

capstan_status capstan_worker_state_due(capstan_job* job, int32_t* is_due, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    if (is_due == nullptr) {
      return absl::InvalidArgumentError("is_due: expected a place for it, got NULL");
    }
    ASSIGN_OR_RETURN(const bool due, engine.worker_state().AwaitDue(LimitOf(timeout_ms)));
    *is_due = due ? 1 : 0;
    return absl::OkStatus();
  });
}
