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
std::string PhaseText(const v1::JobView& view);

// The worker has done all its steps. If it is no member any more, it has left, and is not lost.
bool HasDoneItsSteps(const v1::Progress& progress);

// One line on the whole job, members first. Rates are means since `before`, an earlier sample.
// `cluster` has the expected numbers of members.
std::string OverallLine(const ProgressSample& now, const ProgressSample& before,
                        const v1::ClusterSpec& cluster);

// One line a worker: step, steps behind the fastest live worker, loss and rates. A worker has no
// loss and no rates before its first step. A step has no total until the worker tells it.
std::vector<std::string> WorkerLines(const ProgressSample& now, const ProgressSample& before);

// The work of the codecs, over all workers: "pushed 12.3 MB (3.9x smaller), pulled 6.2 MB (2.0x
// smaller), residual 0.52, codecs 1.2 s". The residual is its norm divided by the gradient's, as
// root mean squares over all pushes. Empty in a job without codecs, and before the first bytes.
std::string CodecLine(const v1::GetStatusReply& status);

// One line for each of the latest workers in a held place, printable.
std::vector<std::string> ReplacementLines(const v1::GetStatusReply& status);

// "server 0 was lost 12 s ago (has failed: no memory); 2 shards moved; all had two copies again
// after 3.1 s", a line for each server without which the job went on.
std::vector<std::string> ServerLossLines(const v1::GetStatusReply& status);

}  // namespace capstan

#endif  // DEPLOY_CLI_TEXT_PROGRESS_LINES_H_
