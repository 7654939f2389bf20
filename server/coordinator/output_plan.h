#ifndef SERVER_COORDINATOR_OUTPUT_PLAN_H_
#define SERVER_COORDINATOR_OUTPUT_PLAN_H_

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/model_file/model_file.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// The work on the file of a job's --output, in two parts: making it before the training, publishing
// it at the end. Both may take long, so the owner does them without a lock. Not thread-safe.
class OutputPlan {
 public:
  // Null: there is nothing to do.
  using Work = absl::AnyInvocable<absl::Status(ModelOutput& file)>;

  // Without --output, nothing is ever to be done.
  explicit OutputPlan(const v1::JobSpec& job) : is_wanted_(!job.output().empty()) {}

  bool is_wanted() const { return is_wanted_; }

  // True once the file has been made. The first call asks for it.
  bool Make(const ModelOutput::Tables& tables);
  // Asks for the name of the file. The servers have written `result`'s parameters of this step.
  void Publish(const v1::JobSpec& job, int64_t step, const v1::ReportResultRequest& result);

  // What has been asked for and not taken yet. Its result goes to EndWork.
  Work TakeWork() { return std::exchange(work_, nullptr); }
  // The work is done, without an error.
  void EndWork() { is_made_ = true; }

 private:
  const bool is_wanted_;
  bool is_asked_for_ = false;
  bool is_made_ = false;
  Work work_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_OUTPUT_PLAN_H_
