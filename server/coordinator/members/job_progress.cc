#include "server/coordinator/members/job_progress.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace capstan {
namespace {

uint64_t Count(const v1::Progress& progress) {
  const auto& replies = progress.replies_of_staleness();
  return std::accumulate(replies.begin(), replies.end(), uint64_t{0});
}

double MeanStaleness(const v1::Progress& before, const v1::Progress& since) {
  const auto replies_before = static_cast<double>(Count(before));
  const auto replies_since = static_cast<double>(Count(since));
  const double replies = replies_before + replies_since;
  if (replies == 0) return 0;
  return (before.mean_staleness_seen() * replies_before +
          since.mean_staleness_seen() * replies_since) /
         replies;
}

// True when a worker that has done the steps before `steps_done` still has one to do under BSP.
bool WorkerHasBspStepsLeft(const v1::JobView& view, const v1::Progress& progress,
                           int64_t steps_done) {
  // A worker that has not begun has not said how many steps it will do.
  const int64_t unknown = std::numeric_limits<int64_t>::max();
  int64_t end = progress.steps_total() > 0 ? progress.steps_total() : unknown;
  for (int i = view.consistency_size() - 1; i >= 0 && end > steps_done; --i) {
    const v1::ConsistencyPeriod& period = view.consistency(i);
    if (period.first_step() < end && period.consistency().mode() == v1::ConsistencySpec::BSP) {
      return true;
    }
    end = std::min<int64_t>(end, period.first_step());
  }
  return false;
}

}  // namespace

v1::Progress ProgressAt(const v1::Progress& report, int64_t step) {
  v1::Progress progress = report;
  progress.set_steps_done(step);
  progress.clear_period();
  if (report.steps_done() <= 0) return progress;
  const double share = static_cast<double>(step) / static_cast<double>(report.steps_done());
  const auto scaled = [share](uint64_t count) {
    return static_cast<uint64_t>(std::llround(share * static_cast<double>(count)));
  };
  progress.set_samples(scaled(report.samples()));
  progress.set_local_steps(scaled(report.local_steps()));
  progress.set_bytes_pushed(scaled(report.bytes_pushed()));
  progress.set_bytes_pulled(scaled(report.bytes_pulled()));
  progress.set_float_bytes_pushed(scaled(report.float_bytes_pushed()));
  progress.set_float_bytes_pulled(scaled(report.float_bytes_pulled()));
  progress.set_gradient_squares(share * report.gradient_squares());
  progress.set_residual_squares(share * report.residual_squares());
  progress.set_seconds(share * report.seconds());
  progress.set_seconds_waiting(share * report.seconds_waiting());
  progress.set_seconds_sending(share * report.seconds_sending());
  progress.set_seconds_coding(share * report.seconds_coding());
  for (uint64_t& replies : *progress.mutable_replies_of_staleness()) replies = scaled(replies);
  return progress;
}

v1::Progress JoinedProgress(const v1::Progress& before, const v1::Progress& since) {
  v1::Progress joined = since;
  joined.set_steps_done(std::max(before.steps_done(), since.steps_done()));
  if (since.steps_total() == 0) joined.set_steps_total(before.steps_total());
  if (since.samples() == 0) joined.set_loss(before.loss());
  joined.set_samples(before.samples() + since.samples());
  joined.set_local_steps(before.local_steps() + since.local_steps());
  if (since.drift() == 0) joined.set_drift(before.drift());
  joined.set_bytes_pushed(before.bytes_pushed() + since.bytes_pushed());
  joined.set_bytes_pulled(before.bytes_pulled() + since.bytes_pulled());
  joined.set_float_bytes_pushed(before.float_bytes_pushed() + since.float_bytes_pushed());
  joined.set_float_bytes_pulled(before.float_bytes_pulled() + since.float_bytes_pulled());
  joined.set_gradient_squares(before.gradient_squares() + since.gradient_squares());
  joined.set_residual_squares(before.residual_squares() + since.residual_squares());
  joined.set_max_staleness_seen(std::max(before.max_staleness_seen(), since.max_staleness_seen()));
  joined.set_mean_staleness_seen(MeanStaleness(before, since));
  joined.set_seconds(before.seconds() + since.seconds());
  joined.set_seconds_waiting(before.seconds_waiting() + since.seconds_waiting());
  joined.set_seconds_sending(before.seconds_sending() + since.seconds_sending());
  joined.set_seconds_coding(before.seconds_coding() + since.seconds_coding());
  auto& replies = *joined.mutable_replies_of_staleness();
  replies.Resize(std::max(replies.size(), before.replies_of_staleness_size()), 0);
  for (int i = 0; i < before.replies_of_staleness_size(); ++i) {
    replies[i] += before.replies_of_staleness(i);
  }
  if (since.median_step_seconds() == 0) {
    joined.set_median_step_seconds(before.median_step_seconds());
  }
  if (since.device().empty()) joined.set_device(before.device());
  if (before.has_first_loss()) joined.set_first_loss(before.first_loss());
  joined.set_largest_loss(std::max(before.largest_loss(), since.largest_loss()));
  return joined;
}

bool HasBspStepsLeft(const v1::GetStatusReply& status) {
  if (status.view().consistency().empty()) return true;
  const auto& workers = status.view().workers();
  // A worker that enters begins after the steps of all others, so theirs decide.
  const bool all_enter = std::all_of(workers.begin(), workers.end(),
                                     [](const auto& worker) { return worker.is_entering(); });
  for (const v1::WorkerInfo& worker : workers) {
    if (worker.is_entering() && !all_enter) continue;
    const int id = static_cast<int>(worker.worker());
    const v1::Progress progress =
        id < status.progress_size() ? status.progress(id) : v1::Progress();
    const int64_t first_step = worker.is_entering() ? 0 : worker.first_step();
    if (WorkerHasBspStepsLeft(status.view(), progress,
                              std::max(first_step, progress.steps_done()))) {
      return true;
    }
  }
  return false;
}

}  // namespace capstan
