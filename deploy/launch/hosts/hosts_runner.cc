#include "deploy/launch/hosts/hosts_runner.h"

#include <algorithm>
#include <csignal>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "deploy/launch/rendezvous.h"

namespace capstan {
namespace {

// What a host may print: so much at once, and so much in each second. A job prints a line for each
// worker every two seconds.
constexpr int64_t kMostBytes = 64 << 20;
constexpr int64_t kMostBytesPerSecond = 1 << 20;

// The hosts end without a sign of life for InputEnd::kLongestSilence.
constexpr absl::Duration kSignOfLifeInterval = absl::Seconds(5);

// Without the folder that a line names at its end: it will be another one here.
absl::string_view WithoutFolder(absl::string_view line) {
  return line.substr(0, line.rfind("; logs in "));
}

// The reason in a host's log, without what `capstan run` adds to it.
std::string ReasonIn(const std::string& log) {
  const std::string line = LastErrorLine(log);
  return std::string(WithoutFolder(absl::StripPrefix(line, "capstan run: ")));
}

}  // namespace

absl::Status HostsRunner::Run() {
  start_ = options_.clock->Now();
  do {
    RETURN_IF_ERROR(StartNext());
    LookAtHosts();
    GiveSignOfLife();
    if (options_.take_interrupt()) {
      // The second one is for those who do not want to wait.
      if (std::exchange(was_interrupted_, true)) break;
      EndInputs();
    }
    SleepUntil(*options_.clock, options_.clock->Now() + options_.poll_interval);
  } while (KeepsWaiting());
  return Result();
}

absl::Status HostsRunner::StartHost(int host) {
  const std::string script = options_.script(host, coordinator_);
  LineFollower output(options_.hosts->LogPath(host));
  ASSIGN_OR_RETURN(auto process, options_.hosts->Start(host, script));
  // From the first sign of life on, the host notices that there are none.
  process->TouchInput();
  members_.push_back({std::move(process), std::move(output), std::nullopt});
  return absl::OkStatus();
}

absl::Status HostsRunner::StartNext() {
  if (members_.empty()) return StartHost(0);
  const bool can_start = !coordinator_.empty() && !deadline_.has_value();
  while (can_start && static_cast<int>(members_.size()) < options_.hosts->size()) {
    RETURN_IF_ERROR(StartHost(static_cast<int>(members_.size())));
  }
  return absl::OkStatus();
}

void HostsRunner::LookAtHosts() {
  for (int host = 0; host < static_cast<int>(members_.size()); ++host) {
    Member& member = members_[host];
    if (member.exit.has_value()) continue;
    // In this order: afterwards, the output is complete.
    member.exit = member.process->Poll();
    while (ShowLines(host, /*at_end=*/member.exit.has_value()) && member.exit.has_value()) {
    }
    if (!member.exit.has_value() && HasPrintedTooMuch(member)) member.process->Signal(SIGKILL);
    if (!member.exit.has_value()) continue;
    const bool has_failed = !member.exit->ok() && !inputs_have_ended_;
    if (has_failed) RememberFailure(host);
    if (inputs_have_ended_) continue;
    if (host == 0 && member.exit->ok() && options_.runs_programs) continue;
    if (host == 0) {
      EndWithin(options_.patience_after_first);
    } else if (has_failed) {
      EndWithin(options_.patience_after_failure);
    }
  }
}

void HostsRunner::RememberFailure(int host) {
  const std::string reason = HasPrintedTooMuch(members_[host])
                                 ? "it has printed too much"
                                 : ReasonIn(options_.hosts->LogPath(host));
  const std::string failure = absl::StrCat("host ", options_.hosts->hosts()[host].name, " ended (",
                                           members_[host].exit->ToString(), "): ", reason);
  // After the first one has ended, the others do so for the same reason.
  if (host != 0 && !members_[0].exit.has_value()) options_.print(failure);
  // The coordinator's host knows more than the others.
  if (first_failure_.empty() || host == 0) first_failure_ = failure;
  const bool is_late = host != 0 && members_[0].exit.has_value() && members_[0].exit->ok();
  if (is_late && late_failure_.empty()) late_failure_ = failure;
}

bool HostsRunner::HasPrintedTooMuch(const Member& member) const {
  const int64_t seconds = absl::ToInt64Seconds(options_.clock->Now() - start_);
  return member.output.position() > kMostBytes + seconds * kMostBytesPerSecond;
}

void HostsRunner::GiveSignOfLife() {
  if (inputs_have_ended_ || options_.clock->Now() < next_sign_of_life_) return;
  next_sign_of_life_ = options_.clock->Now() + kSignOfLifeInterval;
  for (const Member& member : members_) member.process->TouchInput();
}

bool HostsRunner::HaveAllEnded() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.exit.has_value(); });
}

bool HostsRunner::ShowLines(int host, bool at_end) {
  Member& member = members_[host];
  if (HasPrintedTooMuch(member)) return false;
  const std::vector<std::string> lines = member.output.Take(at_end);
  for (const std::string& line : lines) {
    // The folder of the traces, too, will be another one here.
    if (absl::StartsWith(line, "traces: ")) continue;
    options_.print(absl::StrCat(options_.hosts->hosts()[host].name, " | ", WithoutFolder(line)));
    if (const size_t begin = line.find(kMeetingNotice); host == 0 && begin != line.npos) {
      coordinator_ = line.substr(begin + absl::string_view(kMeetingNotice).size());
    }
  }
  return !lines.empty();
}

void HostsRunner::EndInputs() {
  inputs_have_ended_ = true;
  for (const Member& member : members_) member.process->EndInput();
  deadline_ = options_.clock->Now() + options_.end_timeout;
}

void HostsRunner::EndWithin(absl::Duration time) {
  const absl::Time end = options_.clock->Now() + time;
  deadline_ = std::min(deadline_.value_or(end), end);
}

bool HostsRunner::KeepsWaiting() {
  if (HaveAllEnded()) return false;
  if (!deadline_.has_value() || options_.clock->Now() < *deadline_) return true;
  if (inputs_have_ended_) return false;
  EndInputs();
  return true;
}

absl::Status HostsRunner::Result() const {
  if (was_interrupted_) return absl::CancelledError("interrupted");
  const std::optional<ChildExit>& first = members_[0].exit;
  if (first.has_value() && first->ok()) {
    return options_.runs_programs && !late_failure_.empty() ? absl::AbortedError(late_failure_)
                                                            : absl::OkStatus();
  }
  if (!first_failure_.empty()) return absl::AbortedError(first_failure_);
  return absl::DeadlineExceededError(absl::StrCat("host ", options_.hosts->hosts()[0].name,
                                                  ": expected its end after that of the others"));
}

}  // namespace capstan
