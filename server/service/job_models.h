#ifndef SERVER_SERVICE_JOB_MODELS_H_
#define SERVER_SERVICE_JOB_MODELS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model_file/model_file.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/optimizer/state_tensors.h"
#include "server/shard/shard_host.h"

namespace capstan {

// The files of a job's --initial and --output, for one of its servers. Not thread-safe.
class JobModels {
 public:
  // Opens them, so that a wrong path ends the job before the training. The errors name the flag.
  // `has_initial` false: the server begins without a slice, and has no use for --initial.
  static absl::StatusOr<JobModels> Open(const v1::GetJobReply& job, const v1::JobView& view,
                                        bool has_initial = true);

  // What --initial has for the slices; null: there is none, or the job goes on from a checkpoint.
  ShardHost::InitialSource initial() const;

  // Writes all slices of `host` into the file of --output. Without --output it does nothing.
  absl::Status Save(ShardHost& host) const;

 private:
  JobModels(const v1::JobSpec& job, const v1::JobView& view) : job_(job), tables_(view.tables()) {}

  // Both with the optimizer's state, if the job wants it there.
  absl::Status OpenOutput(const v1::GetJobReply& job);
  absl::Status OpenInitial();

  v1::JobSpec job_;
  ModelOutput::Tables tables_;
  std::shared_ptr<const ModelTables> initial_;  // null: none
  std::unique_ptr<ModelTables> output_;         // the unfinished file; null: none
};

}  // namespace capstan

#endif  // SERVER_SERVICE_JOB_MODELS_H_
