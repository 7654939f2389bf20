#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/grpc_status_client.h"
#include "deploy/cli/text/progress_lines.h"

namespace capstan {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);
// How often it looks for keys and interrupts.
constexpr absl::Duration kTick = absl::Milliseconds(50);
constexpr size_t kRateSamples = 3;

// The terminal's second screen: what was on the first one comes back at the end.
constexpr char kEnterScreen[] = "\x1b[?1049h\x1b[H";
constexpr char kLeaveScreen[] = "\x1b[?1049l";
constexpr char kHome[] = "\x1b[H";
constexpr char kClearLine[] = "\x1b[K\n";
constexpr char kClearBelow[] = "\x1b[J";

double Percent(double part, double whole) {
  return whole > 0 ? 100 * std::max(0.0, part) / whole : 0;
}

std::string TimeLine(uint32_t worker, const v1::Progress& progress) {
  const double seconds = progress.seconds();
  const double computing = seconds - progress.seconds_waiting() - progress.seconds_sending();
  return absl::StrFormat(
      "  worker-%-2d computing %3.0f %%, waiting %3.0f %%, sending %3.0f %%, coding %3.0f %%; "
      "staleness %.2f, at most %d\n",
      worker, Percent(computing, seconds), Percent(progress.seconds_waiting(), seconds),
      Percent(progress.seconds_sending(), seconds), Percent(progress.seconds_coding(), seconds),
      progress.mean_staleness_seen(), progress.max_staleness_seen());
}

// "lost: workers 1 (replaced 1), servers 0 (replaced 0)"; nothing if nothing was lost.
std::string LostLine(const v1::GetStatusReply& status) {
  int workers = status.replaced_workers_size();
  // A server with which the job fails is not counted by the coordinator.
  uint32_t dead = 0;
  for (const v1::WorkerInfo& worker : status.view().workers()) {
    const auto id = static_cast<int>(worker.worker());
    const bool is_done = id < status.progress_size() && HasDoneItsSteps(status.progress(id));
    workers += !worker.is_live() && !is_done;
  }
  for (const v1::ServerInfo& server : status.view().servers()) dead += !server.is_live();
  const uint32_t servers = std::max(dead, status.servers_lost());
  if (workers == 0 && servers == 0) return "";
  return absl::StrCat("lost: workers ", workers, " (replaced ", status.replaced_workers_size(),
                      "), servers ", servers, " (replaced ", status.servers_replaced(), ")\n");
}

bool HasEnded(const v1::GetStatusReply& status) {
  return status.view().phase() == v1::DONE || status.view().phase() == v1::FAILED;
}

void Draw(const std::string& text, const TerminalSize& size, std::ostream& out) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  // The last line is for the cursor.
  const size_t room = static_cast<size_t>(std::max(2, size.rows - 1));
  if (lines.size() > room) {
    const size_t hidden = lines.size() - room + 1;
    lines.resize(room - 1);
    lines.push_back(absl::StrCat("... and ", hidden, " more lines"));
  }
  out << kHome;
  for (const std::string& line : lines) {
    out << line.substr(0, std::max(1, size.columns - 1)) << kClearLine;
  }
  out << kClearBelow << std::flush;
}

// False: the user wants to end.
bool WaitForNext(const TopOptions& options) {
  const absl::Time next = options.clock->Now() + kInterval;
  while (options.clock->Now() < next) {
    if (options.take_interrupt()) return false;
    for (char key; (key = options.take_key()) != 0;) {
      if (key == 'q' || key == 'Q') return false;
    }
    SleepUntil(*options.clock, std::min(next, options.clock->Now() + kTick));
  }
  return true;
}

std::string AbsenceText(absl::Duration away, absl::Duration patience) {
  return absl::StrFormat(
      "The coordinator has not answered for %.0f s. These are its last numbers. The job has\n"
      "ended, or trains on and waits for a coordinator, for %.0f s in all. Until one answers,\n"
      "nobody can join, and nobody who is lost is replaced.\n",
      absl::ToDoubleSeconds(away), absl::ToDoubleSeconds(patience));
}

// Waits for the next status, as long as the job waits for its coordinator. Meanwhile it shows
// `last`. Nothing: nobody answers any more, as `last` says at its end, or the user wants to end.
absl::StatusOr<std::optional<v1::GetStatusReply>> NextStatus(GrpcStatusClient& client,
                                                             absl::Duration patience,
                                                             const TopOptions& options,
                                                             std::string& last) {
  const absl::Time answered = options.clock->Now();
  while (WaitForNext(options)) {
    absl::StatusOr<v1::GetStatusReply> next = client.GetStatus();
    if (!absl::IsUnavailable(next.status()) && !absl::IsDeadlineExceeded(next.status())) {
      return next;
    }
    const absl::Duration away = options.clock->Now() - answered;
    if (away >= patience) {
      last +=
          "The coordinator does not answer any more: the job has ended, or its machine is gone.\n";
      break;
    }
    Draw(AbsenceText(away, patience) + last, options.terminal().value_or(TerminalSize()),
         *options.out);
  }
  return std::nullopt;
}

// Returns when the job has ended, or the user wants to end. `last` is then the last text.
absl::Status ShowUntilEnd(GrpcStatusClient& client, v1::GetStatusReply status,
                          const TopOptions& options, std::string& last) {
  const absl::Time begin = options.clock->Now();
  std::deque<ProgressSample> samples;
  while (true) {
    samples.push_back({options.clock->Now() - begin, std::move(status)});
    if (samples.size() > kRateSamples) samples.pop_front();
    const bool is_first = samples.size() == 1;
    last = FormatTop(samples.back(), is_first ? ProgressSample() : samples.front());
    Draw(last, options.terminal().value_or(TerminalSize()), *options.out);
    const v1::GetStatusReply& shown = samples.back().status;
    if (HasEnded(shown)) return absl::OkStatus();
    ASSIGN_OR_RETURN(std::optional<v1::GetStatusReply> next,
                     NextStatus(client, absl::Seconds(shown.coordinator_seconds()), options, last));
    if (!next.has_value()) return absl::OkStatus();
    status = *std::move(next);
  }
}

}  // namespace

std::string FormatTop(const ProgressSample& now, const ProgressSample& before) {
  std::string text = absl::StrCat(FormatStatus(now, before), LostLine(now.status));
  std::string times;
  for (const v1::WorkerInfo& worker : now.status.view().workers()) {
    const int index = static_cast<int>(worker.worker());
    if (index >= now.status.progress_size() || now.status.progress(index).seconds() <= 0) continue;
    times += TimeLine(worker.worker(), now.status.progress(index));
  }
  return times.empty() ? text : absl::StrCat(text, "time and staleness:\n", times);
}

absl::Status TopCommand(const TopOptions& options) {
  GrpcStatusClient client(options.address, options.clock, options.security);
  ASSIGN_OR_RETURN(v1::GetStatusReply status, client.GetStatus());
  if (!options.terminal().has_value()) {
    *options.out << FormatTop({absl::ZeroDuration(), std::move(status)}, {}) << std::flush;
    return absl::OkStatus();
  }
  *options.out << kEnterScreen;
  std::string last;
  const absl::Status result = ShowUntilEnd(client, std::move(status), options, last);
  *options.out << kLeaveScreen << last << std::flush;
  return result;
}

}  // namespace capstan
