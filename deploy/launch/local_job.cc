#include "deploy/launch/local_job.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "deploy/launch/run_folder.h"

namespace capstan {

namespace fs = std::filesystem;

namespace {

// The address in the line of a server's log "... registered as server 0 at HOST:PORT". Skips the
// first `skipped_bytes`. Empty: there is no such line.
std::string RegisteredAddress(const std::string& log_path, int64_t skipped_bytes) {
  const std::string registered = "] registered as server ";
  const std::string at = " at ";
  std::ifstream in(log_path);
  in.seekg(skipped_bytes);
  for (std::string line; std::getline(in, line);) {
    // Otherwise the line may still grow.
    if (in.eof()) break;
    const size_t begin = line.find(registered);
    if (begin == line.npos) continue;
    const size_t found = line.find(at, begin + registered.size());
    if (found != line.npos) return line.substr(found + at.size());
  }
  return "";
}

// Nothing: there is no such file, or it is empty.
std::optional<std::string> ReadFirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line) || line.empty()) return std::nullopt;
  return line;
}

}  // namespace

absl::StatusOr<std::string> OwnProgramPath() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (!error) return path.string();
  return absl::UnavailableError(absl::StrCat("cannot read /proc/self/exe: ", error.message()));
}

absl::StatusOr<std::string> FindProgram(const std::string& own_path, const std::string& program) {
  const fs::path folder = fs::path(own_path).parent_path();
  const std::vector<std::string> candidates = {
      folder / fs::path(program).filename(),
      absl::StrCat(own_path, ".runfiles/capstan/", program),
      (folder / "../.." / program).lexically_normal(),
  };
  for (const std::string& candidate : candidates) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("expected the program ", program, " at one of ",
                                          absl::StrJoin(candidates, ", "),
                                          "; build //deploy/cli:capstan, or put the programs of "
                                          "Capstan into one folder"));
}

std::string LocalJob::Ended::ToString() const {
  return absl::StrCat(name, " ended (", exit.ToString(), "): ", last_line);
}

std::string LocalJob::Ended::EarlyEndText() const {
  if (!is_program) return ToString();
  return absl::StrCat(name, " ended (", exit.ToString(), ") before the job had all its members: ",
                      exit.ok() ? "expected a program that joins (capstan_start) and stays to the "
                                  "job's end (capstan_finish)"
                                : last_line);
}

std::vector<std::string> LocalJob::Ended::LogLines() const {
  std::vector<std::string> lines;
  for (const std::string& line : last_lines) lines.push_back(absl::StrCat(name, " | ", line));
  return lines;
}

bool LocalJob::Ended::HadLeft(const v1::JobView& view) const {
  return rank.has_value() && *rank < view.workers_size() && !view.workers(*rank).is_live();
}

absl::Status LocalJob::StartCoordinator(const std::string& restore) {
  restore_ = restore;
  // Files of an earlier coordinator.
  std::error_code ignored;
  for (const std::string& path : {PortPath(), summary_path()}) fs::remove(path, ignored);
  std::vector<std::string> args = {
      absl::StrCat("--job=", options_.job_file), absl::StrCat("--listen=", listen_),
      absl::StrCat("--port_file=", PortPath()), absl::StrCat("--summary_json=", summary_path())};
  if (!restore.empty()) args.push_back(absl::StrCat("--restore=", restore));
  if (options_.keeps_state) args.push_back(absl::StrCat("--state=", StatePath()));
  AddSecurityFlags(args);
  if (!options_.http_listen.empty()) {
    args.push_back(absl::StrCat("--http_listen=", options_.http_listen));
  }
  return StartChild("coordinator", Role::kCoordinator, /*index=*/0,
                    {options_.coordinator_program, std::move(args), /*log_path=*/""});
}

std::optional<std::string> LocalJob::CoordinatorAddress() const {
  const std::optional<std::string> address = ReadFirstLine(PortPath());
  if (!address.has_value() || options_.coordinator_host.empty()) return address;
  return absl::StrCat(options_.coordinator_host, address->substr(address->rfind(':')));
}

absl::Status LocalJob::StartNextMember(const std::string& coordinator_address) {
  if (servers_started_ < options_.num_servers) {
    return StartServer(servers_started_++, coordinator_address, /*is_replacement=*/false);
  }
  return StartWorker(workers_started_++, coordinator_address, /*is_replacement=*/false);
}

absl::Status LocalJob::Replace(const Ended& lost, const std::string& coordinator_address) {
  switch (lost.role) {
    case Role::kCoordinator:
      // There is no file if it did not come to listen.
      listen_ = ReadFirstLine(PortPath()).value_or(listen_);
      return StartCoordinator(restore_);
    case Role::kServer:
      return StartServer(lost.index, coordinator_address, /*is_replacement=*/true);
    case Role::kWorker:
      break;
  }
  return StartWorker(lost.index, coordinator_address, /*is_replacement=*/true);
}

absl::Status LocalJob::StartServer(int index, const std::string& coordinator_address,
                                   bool is_replacement) {
  const std::string name = absl::StrCat("server-", index);
  std::vector<std::string> args = MemberArgs(coordinator_address);
  args.push_back("--listen=127.0.0.1:0");
  if (!options_.network.empty()) args.push_back(absl::StrCat("--network=", options_.network));
  AddTraceFlag(name, args);
  return StartChild(name, Role::kServer, index,
                    {options_.server_program, std::move(args), /*log_path=*/""}, is_replacement);
}

absl::Status LocalJob::StartWorker(int index, const std::string& coordinator_address,
                                   bool is_replacement) {
  if (runs_programs()) return StartProgram(index, coordinator_address);
  const std::string name = absl::StrCat("worker-", index);
  std::vector<std::string> args = MemberArgs(coordinator_address);
  args.push_back(absl::StrCat("--device=", options_.devices[index % options_.devices.size()]));
  if (!options_.record_history.empty()) {
    args.push_back(absl::StrCat("--record_history=", options_.record_history));
  }
  // Of two lost ones, a replacement takes the place of the one with its name.
  const std::optional<int>& first_rank = options_.program.first_rank;
  if (first_rank.has_value() && (is_replacement || !options_.has_all_members)) {
    args.push_back(absl::StrCat("--rank=", *first_rank + index));
  }
  AddTraceFlag(name, args);
  ChildProcess::Options worker;
  worker.program = options_.worker_program;
  worker.args = std::move(args);
  worker.shares_input = options_.shares_input;
  return StartChild(name, Role::kWorker, index, std::move(worker));
}

absl::Status LocalJob::StartProgram(int index, const std::string& coordinator_address) {
  ChildProcess::Options shell;
  shell.program = "/bin/sh";
  shell.args = ProgramShellArgs(options_.program.command);
  shell.has_input = true;
  shell.environment = ProgramEnvironment(options_.program, index, options_.num_workers,
                                         coordinator_address, options_.keys);
  return StartChild(absl::StrCat("worker-", index), Role::kWorker, index, std::move(shell));
}

std::vector<std::string> LocalJob::MemberArgs(const std::string& coordinator_address) const {
  std::vector<std::string> args = {
      absl::StrCat("--coordinator=", coordinator_address),
      absl::StrCat("--rpc_deadline_seconds=", options_.rpc_deadline_seconds)};
  AddSecurityFlags(args);
  return args;
}

void LocalJob::AddSecurityFlags(std::vector<std::string>& args) const {
  if (!options_.keys.empty()) args.push_back(absl::StrCat("--keys=", options_.keys));
  if (options_.is_insecure) args.push_back("--insecure");
}

void LocalJob::AddTraceFlag(const std::string& name, std::vector<std::string>& args) const {
  if (!options_.has_trace) return;
  args.push_back(absl::StrCat("--trace=", options_.run_dir, "/", name, kTraceEnding));
}

std::vector<LocalJob::Ended> LocalJob::TakeEnded() {
  std::vector<Ended> ended;
  std::vector<Child> running;
  for (Child& child : running_) {
    if (const std::optional<ChildExit> exit = child.process->Poll(); exit.has_value()) {
      ended.push_back(EndOf(child, *exit));
    } else {
      running.push_back(std::move(child));
    }
  }
  running_ = std::move(running);
  return ended;
}

LocalJob::Ended LocalJob::EndOf(Child& child, const ChildExit& exit) const {
  constexpr size_t kLogLines = 10;
  const std::string log = LogPath(child.name);
  Ended ended;
  ended.name = child.name;
  ended.role = child.role;
  ended.index = child.index;
  ended.exit = exit;
  ended.last_line = LastErrorLine(log, child.earlier_log_bytes);
  ended.is_program = child.role == Role::kWorker && runs_programs();
  if (child.role == Role::kWorker && options_.program.first_rank.has_value()) {
    ended.rank = *options_.program.first_rank + child.index;
  }
  if (child.role == Role::kServer) ended.address = AddressOf(child);
  if (ended.is_program) ended.last_lines = LastLines(log, child.earlier_log_bytes, kLogLines);
  return ended;
}

std::optional<std::string> LocalJob::RunningWorker(int rank) const {
  const Child* const worker = FindWorker(rank);
  return worker == nullptr ? std::nullopt : std::make_optional(worker->name);
}

std::optional<std::string> LocalJob::RunningServer(const std::string& address) {
  const Child* const server = FindServer(address);
  return server == nullptr ? std::nullopt : std::make_optional(server->name);
}

const std::string& LocalJob::AddressOf(Child& child) const {
  if (child.address.empty()) {
    child.address = RegisteredAddress(LogPath(child.name), child.earlier_log_bytes);
  }
  return child.address;
}

const LocalJob::Child* LocalJob::FindServer(const std::string& address) {
  const auto found = std::find_if(running_.begin(), running_.end(), [&](Child& child) {
    return child.role == Role::kServer && AddressOf(child) == address;
  });
  return address.empty() || found == running_.end() ? nullptr : &*found;
}

bool LocalJob::HasRunning(Role role) const {
  return std::any_of(running_.begin(), running_.end(),
                     [role](const Child& child) { return child.role == role; });
}

const LocalJob::Child* LocalJob::FindWorker(int rank) const {
  const std::optional<int>& first = options_.program.first_rank;
  const auto found = std::find_if(running_.begin(), running_.end(), [&](const Child& child) {
    return child.role == Role::kWorker && first.has_value() && *first + child.index == rank;
  });
  return found == running_.end() ? nullptr : &*found;
}

void LocalJob::KillWorker(int rank) {
  if (const Child* const worker = FindWorker(rank)) worker->process->Signal(SIGKILL);
}

void LocalJob::KillServer(const std::string& address) {
  if (const Child* const server = FindServer(address)) server->process->Signal(SIGKILL);
}

void LocalJob::KillServersOutside(const v1::JobView& view) {
  for (Child& child : running_) {
    if (child.role != Role::kServer) continue;
    const std::string& address = AddressOf(child);
    const bool is_lost = std::any_of(
        view.servers().begin(), view.servers().end(), [&](const v1::ServerInfo& server) {
          return !server.is_live() && !address.empty() && server.address() == address;
        });
    if (is_lost || (child.is_replacement && address.empty())) child.process->Signal(SIGKILL);
  }
}

void LocalJob::SignalCoordinator(int signal) {
  for (Child& child : running_) {
    if (child.role == Role::kCoordinator) child.process->Signal(signal);
  }
}

bool LocalJob::HasSummary() const {
  std::error_code ignored;
  return fs::exists(summary_path(), ignored);
}

void LocalJob::KillAll() {
  running_.clear();
  std::error_code ignored;
  if (options_.keeps_state) fs::remove_all(StatePath(), ignored);
}

void LocalJob::Reset() {
  KillAll();
  servers_started_ = 0;
  workers_started_ = 0;
  // Who watches the job finds the next coordinator at the same address. But a coordinator that
  // could not listen has left no file: its port is taken.
  listen_ = ReadFirstLine(PortPath()).value_or(options_.listen);
  std::error_code ignored;
  fs::remove(PortPath(), ignored);
}

absl::Status LocalJob::StartChild(std::string name, Role role, int index,
                                  ChildProcess::Options process, bool is_replacement) {
  const std::string log = LogPath(name);
  std::error_code no_log;
  if (fs::exists(log, no_log)) {
    std::ofstream(log, std::ios::app) << "---- capstan run starts " << name << " again ----\n";
  }
  const uint64_t bytes = fs::file_size(log, no_log);
  process.log_path = log;
  ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> started, ChildProcess::Start(process));
  const int64_t earlier_log_bytes = no_log ? 0 : static_cast<int64_t>(bytes);
  running_.push_back({std::move(name), role, index, earlier_log_bytes, is_replacement,
                      std::move(started), /*address=*/""});
  return absl::OkStatus();
}

std::string LocalJob::LogPath(const std::string& name) const {
  return absl::StrCat(options_.run_dir, "/", name, kLogEnding);
}

}  // namespace capstan
