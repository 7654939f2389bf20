#include "deploy/cli/progress_lines.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/cli/number_text.h"

namespace capstan {
namespace {

struct Rates {
  double samples = 0;  // a second
  double bytes = 0;    // a second, both ways
};

uint64_t Bytes(const v1::Progress& progress) {
  return progress.bytes_pushed() + progress.bytes_pulled();
}

bool IsFinished(const v1::Progress& progress) {
  return progress.steps_total() > 0 && progress.steps_done() >= progress.steps_total();
}

// Progress of worker `i`, empty when the coordinator had not heard of it.
const v1::Progress& ProgressOf(const v1::GetStatusReply& status, int i) {
  return i < status.progress_size() ? status.progress(i) : v1::Progress::default_instance();
}

// Over the worker's own time between two samples; for one that has finished, over all its time.
Rates RatesOf(const v1::Progress& now, const v1::Progress& before) {
  const v1::Progress& since = IsFinished(now) ? v1::Progress::default_instance() : before;
  const double seconds = now.seconds() - since.seconds();
  if (seconds <= 0 || now.samples() < since.samples() || Bytes(now) < Bytes(since)) return {};
  return {(now.samples() - since.samples()) / seconds, (Bytes(now) - Bytes(since)) / seconds};
}

// What a line about the whole job adds up.
struct Totals {
  int live_workers = 0;
  int live_servers = 0;
  int64_t steps_done = 0;
  int64_t steps_total = 0;
  int64_t slowest = std::numeric_limits<int64_t>::max();
  int64_t fastest = 0;
  double loss = 0;  // mean over live workers
  Rates rates;
};

Totals AddUp(const ProgressSample& now, const ProgressSample& before) {
  Totals totals;
  for (const v1::ServerInfo& server : now.status.view().servers()) {
    totals.live_servers += server.is_live();
  }
  for (const v1::WorkerInfo& worker : now.status.view().workers()) {
    if (!worker.is_live()) continue;
    const v1::Progress& progress = ProgressOf(now.status, worker.worker());
    const Rates rates = RatesOf(progress, ProgressOf(before.status, worker.worker()));
    ++totals.live_workers;
    totals.steps_done += progress.steps_done();
    totals.steps_total += progress.steps_total();
    totals.slowest = std::min(totals.slowest, progress.steps_done());
    totals.fastest = std::max(totals.fastest, progress.steps_done());
    totals.loss += progress.loss();
    totals.rates.samples += rates.samples;
    totals.rates.bytes += rates.bytes;
  }
  totals.slowest = std::min(totals.slowest, totals.fastest);
  totals.loss /= std::max(1, totals.live_workers);
  return totals;
}

}  // namespace

std::string PhaseText(v1::Phase phase) {
  switch (phase) {
    case v1::REGISTERING:
      return "waiting for members";
    case v1::PLACING:
      return "placing shards";
    case v1::TRAINING:
      return "training";
    case v1::EVALUATING:
      return "evaluating";
    case v1::DONE:
      return "done";
    case v1::FAILED:
      return "failed";
    default:
      return "starting";
  }
}

std::string OverallLine(const ProgressSample& now, const ProgressSample& before,
                        const v1::ClusterSpec& cluster) {
  const Totals totals = AddUp(now, before);
  std::string line = absl::StrFormat("%6s  %s, ", TimeText(absl::ToDoubleSeconds(now.elapsed)),
                                     PhaseText(now.status.view().phase()));
  if (totals.steps_total > 0) {
    const double percent = 100.0 * totals.steps_done / totals.steps_total;
    absl::StrAppendFormat(&line, "%.0f%%, step %d", percent, totals.slowest);
    if (totals.fastest > totals.slowest) absl::StrAppendFormat(&line, "-%d", totals.fastest);
    absl::StrAppendFormat(&line, ", loss %.4f, %s samples/s, %s/s, ", totals.loss,
                          CountText(totals.rates.samples), BytesText(totals.rates.bytes));
  }
  absl::StrAppendFormat(&line, "%d/%d workers, %d/%d servers", totals.live_workers,
                        cluster.num_workers(), totals.live_servers, cluster.num_servers());
  return line;
}

std::vector<std::string> WorkerLines(const ProgressSample& now, const ProgressSample& before) {
  const int64_t fastest = AddUp(now, before).fastest;
  std::vector<std::string> lines;
  for (const v1::WorkerInfo& worker : now.status.view().workers()) {
    const v1::Progress& progress = ProgressOf(now.status, worker.worker());
    std::string line = absl::StrFormat("worker-%-2d step %5d/%-5d", worker.worker(),
                                       progress.steps_done(), progress.steps_total());
    if (worker.is_live()) {
      const Rates rates = RatesOf(progress, ProgressOf(before.status, worker.worker()));
      absl::StrAppendFormat(&line, " loss %7.4f %7s samples/s %7s/s %3d behind", progress.loss(),
                            CountText(rates.samples), BytesText(rates.bytes),
                            fastest - progress.steps_done());
    } else {
      absl::StrAppend(&line, " lost");
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace capstan
