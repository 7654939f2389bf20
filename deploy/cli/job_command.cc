#include "common/base/status_macros.h"
#include "common/job/job_flags.h"
#include "common/job/load_job.h"
#include "deploy/cli/commands.h"
#include "proto/job.pb.h"

namespace capstan {

absl::Status JobCommand(const std::string& job_file, const std::vector<std::string>& job_flags,
                        std::ostream& out) {
  ASSIGN_OR_RETURN(v1::JobSpec job, EffectiveJob(job_file, job_flags));
  ResolvePaths(/*folder=*/"", &job);
  // Whoever starts the processes has to know how many.
  v1::ClusterSpec& cluster = *job.mutable_cluster();
  cluster.set_num_servers(cluster.num_servers());
  cluster.set_num_workers(cluster.num_workers());
  out << JobText(job) << std::flush;
  return absl::OkStatus();
}

}  // namespace capstan
