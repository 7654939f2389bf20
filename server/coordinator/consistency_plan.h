#ifndef SERVER_COORDINATOR_CONSISTENCY_PLAN_H_
#define SERVER_COORDINATOR_CONSISTENCY_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/table_check.h"

namespace capstan {

// What the job promises from which step on, and the change of it whose first step is being agreed
// on: each server says from which step on it holds everything back, and the change begins at the
// largest of these, so that nobody has seen that step, nor gets there before the change is settled.
// Not thread-safe.
class ConsistencyPlan {
 public:
  // The job's own, from step 0 on.
  explicit ConsistencyPlan(const v1::ConsistencySpec& consistency);

  // Changes what is set in the request, of a job with these tables. Returns the change's number, so
  // that a request may come twice: if it changes nothing, the number of the one that counts already
  // or is pending. FAILED_PRECONDITION: another change is pending. INVALID_ARGUMENT: the result is
  // not valid, or the request sets what cannot change while the job runs, or nothing.
  absl::StatusOr<uint64_t> Begin(const v1::SetConsistencyRequest& request,
                                 const TableSpecs& tables);
  // Ignored unless it is of the change that is pending. INVALID_ARGUMENT: it is of a step that no
  // job gets to.
  absl::Status Report(uint32_t server, const v1::HeldStep& held);
  // Gives the change that is pending its first step; false unless `num_servers` servers have
  // reported.
  bool Settle(size_t num_servers);

  // What a change has become; null while it is pending.
  const v1::ConsistencyPeriod* Find(uint64_t change) const;
  const v1::ConsistencyPeriod& latest() const { return periods_.back(); }
  // The fields of the view that tell all this.
  void WriteTo(v1::JobView& view) const;

 private:
  // A change is numbered as its period will be.
  uint64_t pending_number() const { return periods_.size(); }

  std::vector<v1::ConsistencyPeriod> periods_;  // at least one
  std::optional<v1::ConsistencySpec> pending_;
  std::map<uint32_t, Step> held_from_;  // of each server, for the pending one
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_CONSISTENCY_PLAN_H_
