#include "common/transport/history_recorder.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/history/contract_of_job.h"
#include "common/job/job_fingerprint.h"
#include "proto/history.pb.h"

namespace capstan {
namespace {

// Of processes on one machine, or on machines that keep time by NTP in one room.
constexpr absl::Duration kClockSkew = absl::Milliseconds(1);

v1::HistoryRecord Header(const v1::JobSpec& job) {
  v1::HistoryRecord record;
  v1::HistoryHeader& header = *record.mutable_header();
  header.set_format_version(1);
  header.set_job(JobFingerprint(job));
  header.set_steps(static_cast<int64_t>(job.training().steps()));
  header.set_num_workers(job.cluster().num_workers());
  header.set_clock_skew_ns(absl::ToInt64Nanoseconds(kClockSkew));
  const v1::MembershipSpec& membership = job.membership();
  header.set_settle_ns(absl::ToInt64Nanoseconds(
      absl::Seconds(membership.lease_seconds() + membership.rpc_deadline_seconds())));
  return record;
}

}  // namespace

HistoryRecorder::HistoryRecorder(std::unique_ptr<HistoryFile> file, Clock* clock)
    : clock_(*clock), file_(std::move(file)) {
  recording_.clock = clock;
  recording_.log = file_.get();
}

absl::StatusOr<std::unique_ptr<HistoryRecorder>> HistoryRecorder::Create(const std::string& folder,
                                                                         Incarnation incarnation,
                                                                         Clock* clock) {
  ASSIGN_OR_RETURN(std::unique_ptr<HistoryFile> file,
                   HistoryFile::Create(absl::StrCat(folder, "/worker-",
                                                    absl::Hex(incarnation.value()), ".history")));
  return std::unique_ptr<HistoryRecorder>(new HistoryRecorder(std::move(file), clock));
}

std::unique_ptr<ParameterEndpoint> HistoryRecorder::Record(
    const v1::JobSpec& job, std::unique_ptr<ParameterEndpoint> connection) {
  {
    MutexLock lock(&mu_);
    if (!std::exchange(has_header_, true)) {
      file_->Append(Header(job));
      v1::HistoryRecord record;
      *record.mutable_contract() = ContractOfJob(job);
      file_->Append(record);
      WriteContractsLocked();
    }
  }
  return std::make_unique<RecordingEndpoint>(&recording_, std::move(connection));
}

void HistoryRecorder::NoteView(const v1::JobView& view) {
  MutexLock lock(&mu_);
  view_ = view;
  if (has_header_) WriteContractsLocked();
}

void HistoryRecorder::WriteContractsLocked() {
  for (const v1::ContractRecord& contract : contracts_.Update(view_)) {
    v1::HistoryRecord record;
    *record.mutable_contract() = contract;
    file_->Append(record);
  }
}

absl::Status HistoryRecorder::Finish() {
  v1::HistoryEnd end;
  end.set_time_ns(absl::ToUnixNanos(clock_.Now()));
  return file_->Finish(end);
}

}  // namespace capstan
