#include "deploy/cli/hosts/remote_hosts.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

constexpr absl::string_view kAnswer = "capstan: ";
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
// ssh takes the first value of an option, so a user's --ssh or configuration file comes before
// these. They let it give up: without a password, after 10 s without a connection, and after 15 s
// without a sign of life.
constexpr const char* kSshOptions[] = {
    "-o", "BatchMode=yes",         "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"};

int64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// A command that runs for a host.
struct Running {
  int host;
  std::unique_ptr<ChildProcess> process;
  LineFollower output;
  int64_t log_begin;  // bytes that were in the log before
  std::optional<ChildExit> exit;
  std::string answer;
};

void ReadAnswer(Running* running) {
  for (const std::string& line : running->output.Take(/*at_end=*/true)) {
    absl::string_view text = line;
    if (absl::ConsumePrefix(&text, kAnswer)) running->answer = std::string(text);
  }
}

}  // namespace

std::string ShellWord(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

RemoteHosts::RemoteHosts(Options options) : options_(std::move(options)) {
  for (int host = 0; host < size(); ++host) std::remove(LogPath(host).c_str());
}

std::string RemoteHosts::LogPath(int host) const {
  return absl::StrCat(options_.log_dir, "/", options_.hosts[host].name, ".ssh.log");
}

absl::StatusOr<std::vector<std::string>> RemoteHosts::RunAll(
    absl::string_view what, const std::vector<int>& which,
    const std::function<Command(int host)>& command_of) {
  std::vector<Running> all;
  for (const int host : which) {
    const std::string log = LogPath(host);
    Running running = {host, nullptr, LineFollower(log), SizeOf(log), std::nullopt, ""};
    ASSIGN_OR_RETURN(running.process, StartCommand(host, command_of(host), /*has_input=*/false));
    all.push_back(std::move(running));
  }
  std::vector<std::string> failed;
  for (size_t num_running = all.size(); num_running > 0;) {
    if (options_.take_interrupt()) return absl::CancelledError("interrupted");
    for (Running& running : all) {
      if (running.exit.has_value()) continue;
      running.exit = running.process->Poll();
      if (!running.exit.has_value()) continue;
      --num_running;
      ReadAnswer(&running);
      if (running.exit->ok() && !running.answer.empty()) continue;
      const std::string& name = options_.hosts[running.host].name;
      failed.push_back(name);
      options_.tell(absl::StrCat("host ", name, ": ",
                                 LastErrorLine(LogPath(running.host), running.log_begin)));
    }
    SleepUntil(*options_.clock, options_.clock->Now() + kPollInterval);
  }
  if (!failed.empty()) {
    return absl::UnavailableError(
        absl::StrCat("expected to ", what, ", but cannot on ", absl::StrJoin(failed, ", ")));
  }
  std::vector<std::string> answers;
  for (const Running& running : all) answers.push_back(running.answer);
  return answers;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> RemoteHosts::Start(int host,
                                                                 const std::string& script) {
  return StartCommand(host, {script}, /*has_input=*/true);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> RemoteHosts::StartCommand(int host,
                                                                        const Command& command,
                                                                        bool has_input) {
  ChildProcess::Options child;
  child.program = "/bin/sh";
  child.args = {"-c", command.here, "sh"};
  child.args.insert(child.args.end(), options_.ssh.begin(), options_.ssh.end());
  child.args.insert(child.args.end(), std::begin(kSshOptions), std::end(kSshOptions));
  child.args.push_back(options_.hosts[host].target);
  // The user's shell on the host may be another one.
  child.args.push_back(absl::StrCat("exec sh -c ", ShellWord(command.script)));
  child.log_path = LogPath(host);
  child.has_input = has_input;
  return ChildProcess::Start(child);
}

LineFollower::LineFollower(std::string path) : path_(std::move(path)), position_(SizeOf(path_)) {}

std::vector<std::string> LineFollower::Take(bool at_end) {
  std::ifstream in(path_, std::ios::binary);
  in.seekg(position_);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    // Without its end, the line may still grow.
    const bool is_whole = !in.eof();
    if (!is_whole && !at_end) break;
    position_ += static_cast<int64_t>(line.size()) + (is_whole ? 1 : 0);
    // ssh ends its own lines as terminals need it.
    lines.push_back(PrintableText(absl::StripSuffix(line, "\r")));
  }
  return lines;
}

}  // namespace capstan
