#include "deploy/cli/local_job.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "deploy/cli/log_tail.h"

namespace capstan {

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
  args.push_back(absl::StrCat("--trace=", options_.run_dir, "/", name, ".trace.json"));
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
  return absl::StrCat(options_.run_dir, "/", name, ".log");
}

}  // namespace capstan
