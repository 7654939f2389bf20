#ifndef SERVER_COORDINATOR_MEMBERS_JOB_TABLES_H_
#define SERVER_COORDINATOR_MEMBERS_JOB_TABLES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/routing/table_check.h"
#include "proto/coordinator_service.pb.h"
#include "proto/coordinator_state.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/members/restore_point.h"

namespace capstan {

// The tables of a job, and how many arrays of own state a worker has. The first worker brings both.
// They must fit the job, and be the same as those of every other worker and of the checkpoint from
// which the job goes on. Not thread-safe.
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

  const TableSpecs& specs() const { return specs_; }
  // CheckTables' result.
  const std::vector<uint64_t>& elements() const { return elements_; }
  uint32_t own_arrays() const { return own_arrays_; }

 private:
  absl::Status CompareWithCheckpoint(const v1::RegisterWorkerRequest& worker) const;
  absl::Status TakeFirst(const v1::RegisterWorkerRequest& worker, uint64_t slice_bytes);

  const v1::JobSpec& job_;
  const RestorePoint& restored_;
  TableSpecs specs_;
  std::vector<uint64_t> elements_;
  uint32_t own_arrays_ = 0;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_JOB_TABLES_H_
