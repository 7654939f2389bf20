#ifndef DEPLOY_CLI_TEXT_PROGRESS_LINES_H_
#define DEPLOY_CLI_TEXT_PROGRESS_LINES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// What a coordinator said at some time since the start of the job.
struct ProgressSample {
  absl::Duration elapsed;
  v1::GetStatusReply status;
};

// "waiting for members", "training", ...
std::string PhaseText(v1::Phase phase);

// The state of the whole job, members first. Rates are over the time since `before`, an earlier
// sample of the job; `cluster` says how many members are expected.
std::string OverallLine(const ProgressSample& now, const ProgressSample& before,
                        const v1::ClusterSpec& cluster);

// One line a worker: step, steps behind the fastest live worker, loss and rates. Nobody has a loss
// or rates before its first step.
std::vector<std::string> WorkerLines(const ProgressSample& now, const ProgressSample& before);

}  // namespace capstan

#endif  // DEPLOY_CLI_TEXT_PROGRESS_LINES_H_
