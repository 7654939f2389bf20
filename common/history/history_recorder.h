#ifndef COMMON_HISTORY_HISTORY_RECORDER_H_
#define COMMON_HISTORY_HISTORY_RECORDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/history/contract_log.h"
#include "common/history/history_file.h"
#include "common/history/recording_endpoint.h"
#include "proto/coordinator_service.pb.h"
#include "proto/history.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// Records the exchanges of this process's worker in a file for `capstan check`: without values,
// unless the model is `updates`. Thread-safe.
class HistoryRecorder {
 public:
  // Writes worker-INCARNATION.history in `folder`, which exists. `clock` outlives the recorder.
  // `part`: as v1::HeartbeatRequest::part; above 0, the file is worker-INCARNATION-PART.history.
  // UNAVAILABLE, naming the file, when it cannot be written.
  static absl::StatusOr<std::unique_ptr<HistoryRecorder>> Create(const std::string& folder,
                                                                 Incarnation incarnation,
                                                                 Clock* clock, uint32_t part = 0);

  // Wraps the exchanges of the worker with the servers of `job`. The job goes on without its
  // coordinator for `coordinator_patience` at most. The recorder outlives the result.
  std::unique_ptr<ParameterEndpoint> Record(
      const v1::JobSpec& job, std::unique_ptr<ParameterEndpoint> exchanges,
      absl::Duration coordinator_patience = absl::ZeroDuration());

  // Records the news in a view of the job: its promises, the entry of this worker, and the job's
  // end.
  void NoteView(const v1::JobView& view);

  // Closes the file, after the end of all exchanges. Without a view of the job's end, the worker
  // is recorded as dead. UNAVAILABLE when a record could not be written.
  absl::Status Finish();

 private:
  HistoryRecorder(Incarnation incarnation, uint32_t part, std::unique_ptr<HistoryFile> file,
                  Clock* clock);

  const Incarnation incarnation_;
  const uint32_t part_;
  Clock& clock_;
  const std::unique_ptr<HistoryFile> file_;
  RecordingEndpoint::Recording recording_;

  // Writes the record, or keeps it until the header has been written.
  void WriteLocked(const v1::HistoryRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteMembershipLocked(const v1::WorkerInfo& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  bool has_header_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<v1::HistoryRecord> before_header_ ABSL_GUARDED_BY(mu_);
  // As in the newest view.
  int64_t restored_step_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<v1::ConsistencySpec> first_consistency_ ABSL_GUARDED_BY(mu_);
  ContractLog contracts_ ABSL_GUARDED_BY(mu_);
  v1::MembershipRecord::Event event_ ABSL_GUARDED_BY(mu_) =
      v1::MembershipRecord::EVENT_UNSPECIFIED;  // the last record of this worker
  bool has_job_ended_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace capstan

#endif  // COMMON_HISTORY_HISTORY_RECORDER_H_
