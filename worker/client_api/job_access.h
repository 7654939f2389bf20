#ifndef WORKER_CLIENT_API_JOB_ACCESS_H_
#define WORKER_CLIENT_API_JOB_ACCESS_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "worker/client_api/capstan.h"
#include "worker/client_api/last_error.h"
#include "worker/program/client_job.h"
#include "worker/program/program_engine.h"

struct capstan_job {
  std::unique_ptr<capstan::ClientJob> job;
  const pid_t process = getpid();
};

// What the functions of capstan.h share: how they get at the job, and read their arguments.
namespace capstan {

inline capstan_status Forked() {
  SetLastError("this job belongs to the parent process; a child cannot use it");
  return CAPSTAN_FORKED;
}

inline absl::Duration LimitOf(int64_t timeout_ms) {
  return timeout_ms < 0 ? absl::InfiniteDuration() : absl::Milliseconds(timeout_ms);
}

inline absl::StatusOr<TableId> IdOf(int32_t table) {
  if (table >= 0) return TableId(static_cast<uint32_t>(table));
  return absl::InvalidArgumentError(absl::StrCat("table: expected one from 0 on, got ", table));
}

// `count` items at `items`. INVALID_ARGUMENT: there are some, and no items.
template <typename Item>
absl::StatusOr<absl::Span<Item>> ItemsAt(Item* items, size_t count, const char* name) {
  if (items == nullptr && count > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected ", count, " of them, got NULL"));
  }
  return absl::Span<Item>(items, count);
}

// A child must not touch the job: a lock that another thread held at the fork stays locked there.
inline bool IsForked(const capstan_job& job) { return job.process != getpid(); }

// Null: there is no job, or it is the parent process's.
inline ClientJob* JobOf(const capstan_job* job) {
  return job == nullptr || IsForked(*job) ? nullptr : job->job.get();
}

// Null also before capstan_start.
inline ProgramEngine* EngineOf(const capstan_job* job) {
  const ClientJob* const client = JobOf(job);
  return client == nullptr ? nullptr : client->engine();
}

// Calls `use`, which returns a Status, with the job.
template <typename Use>
capstan_status WithJob(capstan_job* job, Use use) {
  return Guarded([&] {
    if (job == nullptr) return Return(absl::InvalidArgumentError("job: expected a job, got NULL"));
    if (IsForked(*job)) return Forked();
    return Return(use(*job->job));
  });
}

// Calls `use`, which returns a Status, with the engine of `job`.
template <typename Use>
capstan_status WithEngine(capstan_job* job, Use use) {
  return WithJob(job, [&](ClientJob& client) -> absl::Status {
    if (ProgramEngine* const engine = client.engine()) return use(*engine);
    return absl::FailedPreconditionError(
        "the job has not started: call capstan_start (in Python job.start()) before this");
  });
}

}  // namespace capstan

#endif  // WORKER_CLIENT_API_JOB_ACCESS_H_
