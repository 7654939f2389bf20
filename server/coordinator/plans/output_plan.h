#ifndef SERVER_COORDINATOR_PLANS_OUTPUT_PLAN_H_
#define SERVER_COORDINATOR_PLANS_OUTPUT_PLAN_H_

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/model_file/model_file.h"
#include "common/routing/table_check.h"
#include "proto/job.pb.h"
#include "server/coordinator/plans/job_plan.h"

namespace capstan {

// The work on the file of a job's --output, in two parts: making it before the training, publishing
// it at the end. Both may take long, so the owner does them without a lock. Not thread-safe.
class OutputPlan : public JobPlan {
 public:
  // Null: there is nothing to do.
  using Work = absl::AnyInvocable<absl::Status(ModelOutput& file)>;

  // Without --output, nothing is ever to be done.
  explicit OutputPlan(const v1::JobSpec& job)
      : is_wanted_(!job.output().empty()), is_made_(!is_wanted_) {}

  bool is_wanted() const { return is_wanted_; }

  // The file has been made, or there will be none.
  bool is_made() const { return is_made_; }

  // All servers have written the evaluator's parameters: none of them is needed any more.
  bool is_publishing() const { return is_name_asked_for_; }

  // Asks for the file once all members have registered; and for its name once all live servers have
  // written the evaluator's parameters, each those of all its shards. Members need not hear of it.
  bool Settle(const JobFacts& facts, JobEvents& events) override;

  // A file that was made by an earlier coordinator has been made again.
  void Restore(const v1::CoordinatorState& state, const JobFacts& facts) override;

  // Makes the file of a job with these tables.
  static Work BeginWork(const v1::JobSpec& job, const TableSpecs& tables);
  // What has been asked for and not taken yet. Its result goes to EndWork.
  Work TakeWork() { return std::exchange(work_, nullptr); }
  // The work is done, without an error.
  void EndWork() { is_made_ = true; }

 private:
  const bool is_wanted_;
  bool is_asked_for_ = false;
  bool is_made_;
  bool is_name_asked_for_ = false;
  Work work_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_OUTPUT_PLAN_H_
