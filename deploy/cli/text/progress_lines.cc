#include "deploy/cli/text/progress_lines.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/printable_text.h"
#include "deploy/cli/text/number_text.h"

namespace capstan {
namespace {

struct Rates {
  double samples = 0;  // a second
  double bytes = 0;    // a second, both ways
};

uint64_t Bytes(const v1::Progress& progress) {
  return progress.bytes_pushed() + progress.bytes_pulled();
}

// Progress of worker `i`; empty before its first report.
const v1::Progress& ProgressOf(const v1::GetStatusReply& status, int i) {
  return i < status.progress_size() ? status.progress(i) : v1::Progress::default_instance();
}

// Means over the worker's own time between two samples. Over its whole time once it has finished.
Rates RatesOf(const v1::Progress& now, const v1::Progress& before) {
  const v1::Progress& since = HasDoneItsSteps(now) ? v1::Progress::default_instance() : before;
  const double seconds = now.seconds() - since.seconds();
  if (seconds <= 0 || now.samples() < since.samples() || Bytes(now) < Bytes(since)) return {};
  return {(now.samples() - since.samples()) / seconds, (Bytes(now) - Bytes(since)) / seconds};
}

// Sums over the members of a job.
struct Totals {
  int live_workers = 0;
  int live_servers = 0;
  int64_t steps_done = 0;
  int64_t steps_total = 0;
  int64_t least_steps = 0;   // of the slowest live worker
  int64_t most_ahead = 0;    // steps_ahead of the fastest live worker
  bool has_samples = false;  // some worker has computed with some
  double loss = 0;           // mean over live workers with samples
  double samples_per_second = 0;
};

Totals AddUp(const ProgressSample& now, const ProgressSample& before) {
  Totals totals;
  int num_losses = 0;
  for (const v1::ServerInfo& server : now.status.view().servers()) {
    totals.live_servers += server.is_live();
  }
  for (const v1::WorkerInfo& worker : now.status.view().workers()) {
    if (!worker.is_live()) continue;
    const v1::Progress& progress = ProgressOf(now.status, worker.worker());
    const Rates rates = RatesOf(progress, ProgressOf(before.status, worker.worker()));
    const bool is_first = totals.live_workers++ == 0;
    totals.least_steps =
        is_first ? progress.steps_done() : std::min(totals.least_steps, progress.steps_done());
    totals.steps_done += progress.steps_done();
    totals.steps_total += progress.steps_total();
    totals.most_ahead = std::max(totals.most_ahead, progress.steps_ahead());
    totals.samples_per_second += rates.samples;
    if (progress.samples() == 0) continue;
    totals.has_samples = true;
    totals.loss += progress.loss();
    ++num_losses;
  }
  totals.loss /= std::max(1, num_losses);
  return totals;
}

// "pushed 12.3 MB (3.9x smaller)"; empty without bytes.
std::string SentText(const char* what, uint64_t bytes, uint64_t float_bytes) {
  if (bytes == 0) return "";
  const double ratio = static_cast<double>(float_bytes) / static_cast<double>(bytes);
  return absl::StrCat(what, " ", BytesText(static_cast<double>(bytes)), " (", RatioText(ratio),
                      "), ");
}

}  // namespace

bool HasDoneItsSteps(const v1::Progress& progress) {
  return progress.steps_total() > 0 && progress.steps_done() >= progress.steps_total();
}

std::string PhaseText(const v1::JobView& view) {
  switch (view.phase()) {
    case v1::REGISTERING:
      return view.measures_links() ? "measuring links" : "waiting for members";
    case v1::PLACING:
      return "placing shards";
    case v1::TRAINING:
      return "training";
    case v1::EVALUATING:
      return "evaluating";
    case v1::SAVING:
      return "saving the model";
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
  std::string line = absl::StrFormat(
      "%6s  %d/%d workers, %d/%d servers, %s", TimeText(absl::ToDoubleSeconds(now.elapsed)),
      totals.live_workers, cluster.num_workers(), totals.live_servers, cluster.num_servers(),
      PhaseText(now.status.view()));
  if (totals.steps_total > 0) {
    absl::StrAppendFormat(&line, " %.0f%%", 100.0 * totals.steps_done / totals.steps_total);
  } else if (totals.least_steps > 0) {
    absl::StrAppend(&line, ", step ", totals.least_steps);
  }
  if (totals.has_samples) {
    absl::StrAppendFormat(&line, ", loss %.4f, %s samples/s", totals.loss,
                          CountText(totals.samples_per_second));
  }
  return line;
}

namespace {

// "step   120/400  ". Without a total it is not known.
std::string StepColumn(const v1::Progress& progress) {
  const std::string total =
      progress.steps_total() > 0 ? absl::StrCat("/", progress.steps_total()) : "";
  return absl::StrFormat("step %5d%-6s", progress.steps_done(), total);
}

// How far a live worker has come. Nothing before its first step.
std::string CourseText(const v1::Progress& progress, const v1::Progress& before,
                       int64_t most_ahead) {
  // A program need not count samples.
  if (progress.samples() == 0 && progress.bytes_pushed() == 0) return "";
  const Rates rates = RatesOf(progress, before);
  std::string text = absl::StrFormat(" %3d behind", most_ahead - progress.steps_ahead());
  if (progress.samples() > 0) {
    absl::StrAppendFormat(&text, " loss %.4f %7s samples/s", progress.loss(),
                          CountText(rates.samples));
  }
  return absl::StrCat(text, absl::StrFormat(" %8s/s", BytesText(rates.bytes)));
}

}  // namespace

std::vector<std::string> WorkerLines(const ProgressSample& now, const ProgressSample& before) {
  const int64_t most_ahead = AddUp(now, before).most_ahead;
  std::vector<std::string> lines;
  for (const v1::WorkerInfo& worker : now.status.view().workers()) {
    const v1::Progress& progress = ProgressOf(now.status, worker.worker());
    std::string line = absl::StrFormat("worker-%-2d %s", worker.worker(), StepColumn(progress));
    if (!worker.is_live()) {
      absl::StrAppend(&line, HasDoneItsSteps(progress) ? " done"
                             : worker.holds_place()    ? " lost; its place is held"
                                                       : " lost");
    } else if (worker.is_entering()) {
      absl::StrAppend(&line, " taking a lost worker's place");
    } else {
      line += CourseText(progress, ProgressOf(before.status, worker.worker()), most_ahead);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> ReplacementLines(const v1::GetStatusReply& status) {
  std::vector<std::string> lines;
  for (const v1::PlaceReplacement& replacement : status.place_replacements()) {
    lines.push_back(PrintableText(replacement.text()));
  }
  return lines;
}

std::vector<std::string> ServerLossLines(const v1::GetStatusReply& status) {
  std::vector<std::string> lines;
  for (const v1::ServerLoss& loss : status.server_losses()) {
    std::string& line = lines.emplace_back(absl::StrFormat(
        "server %d was lost %.0f s ago (%s); %d shard%s moved; ", loss.server(), loss.seconds_ago(),
        PrintableText(loss.what()), loss.shards_moved(), loss.shards_moved() == 1 ? "" : "s"));
    if (loss.seconds_until_whole() > 0) {
      absl::StrAppendFormat(&line, "all had two copies again after %.1f s",
                            loss.seconds_until_whole());
    } else {
      absl::StrAppend(&line, "some shards have one copy");
    }
  }
  return lines;
}

std::string CodecLine(const v1::GetStatusReply& status) {
  if (!status.has_codec()) return "";
  v1::Progress sum;
  const auto add = [&sum](const v1::Progress& progress) {
    sum.set_bytes_pushed(sum.bytes_pushed() + progress.bytes_pushed());
    sum.set_bytes_pulled(sum.bytes_pulled() + progress.bytes_pulled());
    sum.set_float_bytes_pushed(sum.float_bytes_pushed() + progress.float_bytes_pushed());
    sum.set_float_bytes_pulled(sum.float_bytes_pulled() + progress.float_bytes_pulled());
    sum.set_gradient_squares(sum.gradient_squares() + progress.gradient_squares());
    sum.set_residual_squares(sum.residual_squares() + progress.residual_squares());
    sum.set_seconds_coding(sum.seconds_coding() + progress.seconds_coding());
  };
  for (const v1::Progress& progress : status.progress()) add(progress);
  for (const v1::Progress& progress : status.replaced_workers()) add(progress);
  std::string line = SentText("pushed", sum.bytes_pushed(), sum.float_bytes_pushed()) +
                     SentText("pulled", sum.bytes_pulled(), sum.float_bytes_pulled());
  if (line.empty()) return "";
  if (sum.gradient_squares() > 0) {
    absl::StrAppendFormat(&line, "residual %.3g of the gradient, ",
                          std::sqrt(sum.residual_squares() / sum.gradient_squares()));
  }
  absl::StrAppendFormat(&line, "codecs %.1f s", sum.seconds_coding());
  return line;
}

}  // namespace capstan
