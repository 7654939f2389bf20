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
  static absl::StatusOr<JobModels> Open(const v1::GetJobReply& job, const v1::JobView& view);

  // What --initial has for the slices; null: there is none, or the job goes on from a checkpoint.
  ShardHost::InitialSource initial() const;

  // Writes all slices of `host` into the file of --output, and closes it. Without --output, or a
  // second time, it does nothing.
  absl::Status Save(ShardHost& host);

 private:
  JobModels(const v1::JobSpec& job, const v1::JobView& view) : job_(job), tables_(view.tables()) {}

  // Both with the optimizer's state, if the job wants it there.
  absl::Status OpenOutput(const v1::GetJobReply& job);
  absl::Status OpenInitial();

  v1::JobSpec job_;
  ModelOutput::Tables tables_;
  std::shared_ptr<const ModelTables> initial_;  // null: none
  std::unique_ptr<ModelTables> output_;         // the unfinished file; null: none, or written
};

}  // namespace capstan

#endif  // SERVER_SERVICE_JOB_MODELS_H_
