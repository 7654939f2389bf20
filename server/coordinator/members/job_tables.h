#ifndef SERVER_COORDINATOR_MEMBERS_JOB_TABLES_H_
#define SERVER_COORDINATOR_MEMBERS_JOB_TABLES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/routing/table_check.h"
#include "proto/coordinator_service.pb.h"
#include "proto/coordinator_state.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/members/restore_point.h"

namespace capstan {

// The tables of a job, how many arrays of own state a worker has, its local steps, and how its
// processes share them. The first worker brings them. They must fit the job, and be the same as
// those of every other worker. Tables and arrays must also be those of the checkpoint from which
// the job goes on. Not thread-safe.
class JobTables {
 public:
  // Both must outlive this.
  JobTables(const v1::JobSpec& job, const RestorePoint& restored)
      : job_(job), restored_(restored) {}

  // Takes the first worker's; compares those of others. INVALID_ARGUMENT, with the difference or
  // with what does not fit. `slice_bytes` is for a first worker only: how tables are cut so far.
  absl::Status Take(const v1::RegisterWorkerRequest& worker, bool is_first, uint64_t slice_bytes);

  // Takes those of an earlier coordinator of the job.
  absl::Status Restore(const v1::JobConstants& constants, uint64_t slice_bytes);

  // INVALID_ARGUMENT: the workers' local steps do not allow this change of the consistency.
  absl::Status CheckChange(const v1::ConsistencySpec& change) const;

  const TableSpecs& specs() const { return specs_; }
  // CheckTables' result.
  const std::vector<uint64_t>& elements() const { return elements_; }
  uint32_t own_arrays() const { return own_arrays_; }
  // None: a step is one step of a worker.
  const std::optional<v1::LocalSteps>& local_steps() const { return local_steps_; }
  // v1::RegisterWorkerRequest::processes.
  const std::string& processes() const { return processes_; }

 private:
  absl::Status CompareWithCheckpoint(const v1::RegisterWorkerRequest& worker) const;
  absl::Status CheckSameLocalSteps(const v1::RegisterWorkerRequest& worker) const;
  absl::Status CheckSameProcesses(const std::string& processes) const;
  absl::Status TakeFirst(const v1::RegisterWorkerRequest& worker, uint64_t slice_bytes);

  const v1::JobSpec& job_;
  const RestorePoint& restored_;
  TableSpecs specs_;
  std::vector<uint64_t> elements_;
  uint32_t own_arrays_ = 0;
  std::optional<v1::LocalSteps> local_steps_;
  std::string processes_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_JOB_TABLES_H_
