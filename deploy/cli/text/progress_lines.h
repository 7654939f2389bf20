#ifndef DEPLOY_CLI_TEXT_PROGRESS_LINES_H_
#define DEPLOY_CLI_TEXT_PROGRESS_LINES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// A coordinator's status, and its time since the start of the job.
struct ProgressSample {
  absl::Duration elapsed;
  v1::GetStatusReply status;
};

// "waiting for members", "training", ...
std::string PhaseText(v1::Phase phase);

// One line on the whole job, members first. Rates are means since `before`, an earlier sample.
// `cluster` has the expected numbers of members.
std::string OverallLine(const ProgressSample& now, const ProgressSample& before,
                        const v1::ClusterSpec& cluster);

// One line a worker: step, steps behind the fastest live worker, loss and rates. A worker has no
// loss and no rates before its first step.
std::vector<std::string> WorkerLines(const ProgressSample& now, const ProgressSample& before);

}  // namespace capstan

#endif  // DEPLOY_CLI_TEXT_PROGRESS_LINES_H_
