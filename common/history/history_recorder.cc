#include "common/history/history_recorder.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/history/contract_log.h"
#include "common/job/job_properties.h"

namespace capstan {
namespace {

// Enough for processes on one machine, or on machines of one room with NTP.
constexpr absl::Duration kClockSkew = absl::Milliseconds(1);

// int8 draws what it rounds, and outside BSP each update has a size of its own.
bool HasTestValues(const v1::JobSpec& job) {
  const bool is_rounded = absl::StartsWith(job.codec().push(), "int8") ||
                          absl::StartsWith(job.codec().push(), "bfloat16");
  return job.model().type() == v1::ModelSpec::UPDATES && !is_rounded;
}

v1::HistoryRecord Header(const v1::JobSpec& job, absl::Duration coordinator_patience) {
  v1::HistoryRecord record;
  v1::HistoryHeader& header = *record.mutable_header();
  header.set_format_version(1);
  header.set_job(JobFingerprint(job));
  header.set_steps(static_cast<int64_t>(job.training().steps()));
  header.set_update_scale(UpdateScaleOfJob(job));
  header.set_num_workers(job.cluster().num_workers());
  header.set_has_test_values(HasTestValues(job));
  header.set_clock_skew_ns(absl::ToInt64Nanoseconds(kClockSkew));
  const v1::MembershipSpec& membership = job.membership();
  header.set_settle_ns(absl::ToInt64Nanoseconds(
      absl::Seconds(membership.lease_seconds() + membership.rpc_deadline_seconds()) +
      coordinator_patience));
  return record;
}

}  // namespace

HistoryRecorder::HistoryRecorder(Incarnation incarnation, uint32_t part,
                                 std::unique_ptr<HistoryFile> file, Clock* clock)
    : incarnation_(incarnation), part_(part), clock_(*clock), file_(std::move(file)) {
  recording_.clock = clock;
  recording_.log = file_.get();
  recording_.last_id = FirstExchangeOf(part);
}

absl::StatusOr<std::unique_ptr<HistoryRecorder>> HistoryRecorder::Create(const std::string& folder,
                                                                         Incarnation incarnation,
                                                                         Clock* clock,
                                                                         uint32_t part) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<HistoryFile> file,
      HistoryFile::Create(absl::StrCat(folder, "/worker-", absl::Hex(incarnation.value()),
                                       part > 0 ? absl::StrCat("-", part) : "", ".history")));
  return std::unique_ptr<HistoryRecorder>(
      new HistoryRecorder(incarnation, part, std::move(file), clock));
}

std::unique_ptr<ParameterEndpoint> HistoryRecorder::Record(
    const v1::JobSpec& job, std::unique_ptr<ParameterEndpoint> exchanges,
    absl::Duration coordinator_patience) {
  {
    MutexLock lock(&mu_);
    if (!std::exchange(has_header_, true)) {
      recording_.has_values = recording_.has_changes = HasTestValues(job);
      v1::HistoryRecord record = Header(job, coordinator_patience);
      record.mutable_header()->set_restored_step(restored_step_);
      file_->Append(record);
      // A job that goes on from a checkpoint may have another consistency since.
      *record.mutable_contract() = FirstContract(first_consistency_.value_or(job.consistency()));
      file_->Append(record);
      for (const v1::HistoryRecord& earlier : std::exchange(before_header_, {})) {
        file_->Append(earlier);
      }
    }
  }
  return std::make_unique<RecordingEndpoint>(&recording_, std::move(exchanges));
}

void HistoryRecorder::NoteView(const v1::JobView& view) {
  MutexLock lock(&mu_);
  restored_step_ = view.restored_step();
  if (!view.consistency().empty()) first_consistency_ = view.consistency(0).consistency();
  for (const v1::ContractRecord& contract : contracts_.Update(view)) {
    v1::HistoryRecord record;
    *record.mutable_contract() = contract;
    WriteLocked(record);
  }
  for (const v1::WorkerInfo& worker : view.workers()) {
    const bool is_own = part_ == 0 && Incarnation(worker.incarnation()) == incarnation_;
    if (is_own) WriteMembershipLocked(worker);
  }
  has_job_ended_ = view.phase() == v1::DONE || view.phase() == v1::FAILED;
}

void HistoryRecorder::WriteMembershipLocked(const v1::WorkerInfo& worker) {
  const v1::MembershipRecord::Event event =
      worker.is_entering() ? v1::MembershipRecord::JOINING : v1::MembershipRecord::ENTERED;
  if (std::exchange(event_, event) == event) return;
  v1::HistoryRecord record;
  v1::MembershipRecord& membership = *record.mutable_membership();
  membership.set_event(event);
  membership.set_worker(worker.worker());
  membership.set_incarnation(worker.incarnation());
  membership.set_first_step(worker.first_step());
  membership.set_time_ns(absl::ToUnixNanos(clock_.Now()));
  WriteLocked(record);
}

void HistoryRecorder::WriteLocked(const v1::HistoryRecord& record) {
  if (has_header_) {
    file_->Append(record);
  } else {
    before_header_.push_back(record);
  }
}

absl::Status HistoryRecorder::Finish() {
  {
    MutexLock lock(&mu_);
    if (has_job_ended_ && has_header_) {
      v1::HistoryRecord record;
      record.mutable_end()->set_time_ns(absl::ToUnixNanos(clock_.Now()));
      file_->Append(record);
    }
  }
  return file_->Finish();
}

}  // namespace capstan
