#include "deploy/launch/hosts/remote_hosts.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

constexpr absl::string_view kAnswer = "capstan answers: ";
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
// What a host may print in a task.
constexpr int64_t kMostBytes = 4 << 20;
// What is read at once, and the longest line.
constexpr int64_t kMostBytesAtOnce = 1 << 20;
constexpr size_t kLongestLine = 16 << 10;
// They let ssh give up: without a password, after 10 s without a connection, and after 15 s without
// a sign of life. ssh takes the first value of an option, so those in --ssh come before these, and
// these before those of its configuration file.
constexpr const char* kSshOptions[] = {
    "-o", "BatchMode=yes",         "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"};

int64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// Whether the line says why something failed. tar ends with lines that do not.
bool SaysWhy(absl::string_view line) {
  return !absl::StripAsciiWhitespace(line).empty() &&
         !absl::StartsWith(line, "tar: Exiting with failure status") &&
         !absl::StartsWith(line, "tar: Error is not recoverable") &&
         !absl::StartsWith(line, "tar: Child returned status") &&
         !absl::StartsWith(line, "tar: This does not look like a tar archive");
}

}  // namespace

struct RemoteHosts::Running {
  int host;
  std::unique_ptr<ChildProcess> process;
  LineFollower output;
  int64_t log_begin;  // bytes that were in the log before
  bool has_ended = false;
  std::string answer;
  std::string reason;  // of a failure: what it printed last, or what this process knows
};

std::string ShellWord(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

RemoteHosts::RemoteHosts(Options options) : options_(std::move(options)) {
  for (int host = 0; host < size(); ++host) std::remove(LogPath(host).c_str());
}

std::string RemoteHosts::LogPath(int host) const {
  return absl::StrCat(options_.log_dir, "/", options_.hosts[host].name, kSshLogEnding);
}

std::vector<int> RemoteHosts::All() const {
  std::vector<int> all(size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

absl::StatusOr<std::vector<std::string>> RemoteHosts::RunAll(const Task& task,
                                                             const std::vector<int>& which) {
  std::vector<Running> all;
  for (const int host : which) {
    const std::string log = LogPath(host);
    const std::string here = task.here == nullptr ? "exec \"$@\"" : task.here(host);
    Running running = {host, nullptr, LineFollower(log), SizeOf(log), false, "", ""};
    ASSIGN_OR_RETURN(running.process,
                     StartShell(host, absl::StrCat(kDefineAnswer, here),
                                absl::StrCat(kDefineAnswer, task.script(host)), false));
    all.push_back(std::move(running));
  }
  const absl::Time start = options_.clock->Now();
  bool has_told = false;
  while (!std::all_of(all.begin(), all.end(), [](const Running& one) { return one.has_ended; })) {
    if (options_.take_interrupt()) return absl::CancelledError("interrupted");
    for (Running& running : all) Look(task, start, &running);
    if (!has_told && options_.clock->Now() >= start + options_.notice_time) {
      has_told = true;
      TellWhoIsLate(task, all);
    }
    SleepUntil(*options_.clock, options_.clock->Now() + kPollInterval);
  }
  std::vector<std::string> answers, failed;
  for (const Running& running : all) {
    answers.push_back(running.answer);
    if (!running.reason.empty()) failed.push_back(options_.hosts[running.host].name);
  }
  if (failed.empty()) return answers;
  return absl::UnavailableError(
      absl::StrCat("expected to ", task.what, ", but cannot on ", absl::StrJoin(failed, ", ")));
}

bool RemoteHosts::ReadOutput(bool at_end, Running* running) {
  while (running->output.position() - running->log_begin <= kMostBytes) {
    const std::vector<std::string> lines = running->output.Take(at_end);
    if (lines.empty()) return true;
    for (const std::string& line : lines) {
      absl::string_view text = line;
      if (absl::ConsumePrefix(&text, kAnswer)) running->answer = std::string(text);
      if (SaysWhy(line)) running->reason = line;
    }
  }
  return false;
}

void RemoteHosts::Look(const Task& task, absl::Time start, Running* running) {
  if (running->has_ended) return;
  const std::optional<ChildExit> exit = running->process->Poll();
  const bool has_printed_too_much = !ReadOutput(exit.has_value(), running);
  const bool is_late = options_.clock->Now() >= start + task.time_limit;
  running->has_ended = exit.has_value() || is_late || has_printed_too_much;
  if (!running->has_ended) return;
  if (exit.has_value() && exit->ok() && !running->answer.empty()) {
    running->reason.clear();
    return;
  }
  if (has_printed_too_much) {
    running->reason = absl::StrCat("has printed more than ", kMostBytes >> 20, " MiB");
  } else if (is_late) {
    running->reason =
        absl::StrCat("did not ", task.what, " within ", absl::FormatDuration(task.time_limit));
  } else if (running->reason.empty()) {
    running->reason = exit->ToString();
  }
  running->process.reset();
  options_.tell(absl::StrCat("host ", options_.hosts[running->host].name, ": ", running->reason));
}

void RemoteHosts::TellWhoIsLate(const Task& task, const std::vector<Running>& all) {
  std::vector<std::string> names;
  for (const Running& running : all) {
    if (!running.has_ended) names.push_back(options_.hosts[running.host].name);
  }
  if (names.empty()) return;
  options_.tell(absl::StrCat("waits for ", absl::StrJoin(names, ", "), " to ", task.what));
}

absl::StatusOr<std::unique_ptr<ChildProcess>> RemoteHosts::Start(int host,
                                                                 const std::string& script) {
  return StartShell(host, "exec \"$@\"", script, /*has_input=*/true);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> RemoteHosts::StartShell(int host,
                                                                      const std::string& here,
                                                                      const std::string& script,
                                                                      bool has_input) {
  ChildProcess::Options child;
  child.program = "/bin/sh";
  child.args = {"-c", here, "sh"};
  child.args.insert(child.args.end(), options_.ssh.begin(), options_.ssh.end());
  child.args.insert(child.args.end(), std::begin(kSshOptions), std::end(kSshOptions));
  child.args.push_back(options_.hosts[host].target);
  // The user's shell on the host may be another one.
  child.args.push_back(absl::StrCat("exec sh -c ", ShellWord(script)));
  child.log_path = LogPath(host);
  child.has_input = has_input;
  return ChildProcess::Start(child);
}

LineFollower::LineFollower(std::string path) : path_(std::move(path)), position_(SizeOf(path_)) {}

std::vector<std::string> LineFollower::Take(bool at_end) {
  std::vector<std::string> lines;
  const int64_t size = SizeOf(path_);
  if (size <= position_) return lines;
  std::string text(std::min(size - position_, kMostBytesAtOnce), '\0');
  std::ifstream in(path_, std::ios::binary);
  in.seekg(position_);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  // More may follow what is not the end of the file.
  at_end = at_end && position_ + static_cast<int64_t>(text.size()) == size;
  for (absl::string_view rest = text; !rest.empty();) {
    const size_t end = rest.find('\n');
    // Without its end, the line may still grow.
    if (end == rest.npos && !at_end && rest.size() < kLongestLine) break;
    const size_t length = std::min({end, rest.size(), kLongestLine});
    // ssh ends its own lines as terminals need it.
    lines.push_back(PrintableText(absl::StripSuffix(rest.substr(0, length), "\r")));
    const size_t taken = length + (length == end ? 1 : 0);
    position_ += static_cast<int64_t>(taken);
    rest.remove_prefix(taken);
  }
  return lines;
}

}  // namespace capstan
