#include "deploy/cli/job/local_job.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "deploy/cli/job/run_folder.h"

namespace capstan {

namespace fs = std::filesystem;

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

absl::Status LocalJob::StartCoordinator() {
  return StartChild(
      "coordinator", Role::kCoordinator, options_.coordinator_program,
      {absl::StrCat("--job=", options_.job_file), "--listen=127.0.0.1:0",
       absl::StrCat("--port_file=", PortPath()), absl::StrCat("--summary_json=", summary_path())});
}

std::optional<std::string> LocalJob::CoordinatorAddress() const {
  std::ifstream in(PortPath());
  std::string address;
  if (!std::getline(in, address) || address.empty()) return std::nullopt;
  return address;
}

absl::Status LocalJob::StartNextMember(const std::string& coordinator_address) {
  std::vector<std::string> args = {
      absl::StrCat("--coordinator=", coordinator_address),
      absl::StrCat("--rpc_deadline_seconds=", options_.rpc_deadline_seconds)};
  if (servers_started_ == options_.num_servers) {
    const int worker = workers_started_++;
    args.push_back(absl::StrCat("--device=", options_.devices[worker % options_.devices.size()]));
    if (!options_.record_history.empty()) {
      args.push_back(absl::StrCat("--record_history=", options_.record_history));
    }
    const std::string name = absl::StrCat("worker-", worker);
    AddTraceFlag(name, args);
    return StartChild(name, Role::kWorker, options_.worker_program, std::move(args));
  }
  args.push_back("--listen=127.0.0.1:0");
  const std::string name = absl::StrCat("server-", servers_started_++);
  AddTraceFlag(name, args);
  return StartChild(name, Role::kServer, options_.server_program, std::move(args));
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
      ended.push_back({child.name, child.role, *exit, LastErrorLine(LogPath(child.name))});
    } else {
      running.push_back(std::move(child));
    }
  }
  running_ = std::move(running);
  return ended;
}

bool LocalJob::HasRunning(Role role) const {
  return std::any_of(running_.begin(), running_.end(),
                     [role](const Child& child) { return child.role == role; });
}

void LocalJob::SignalCoordinator(int signal) {
  for (Child& child : running_) {
    if (child.role == Role::kCoordinator) child.process->Signal(signal);
  }
}

absl::Status LocalJob::StartChild(std::string name, Role role, const std::string& program,
                                  std::vector<std::string> args) {
  ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> process,
                   ChildProcess::Start({program, std::move(args), LogPath(name)}));
  running_.push_back({std::move(name), role, std::move(process)});
  return absl::OkStatus();
}

std::string LocalJob::LogPath(const std::string& name) const {
  return absl::StrCat(options_.run_dir, "/", name, kLogEnding);
}

}  // namespace capstan
