#include "deploy/launch/worker_program.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/net/listening_socket.h"

namespace capstan {
namespace {

// The kernel kills the shell with its parent, but not what the shell has started. So another
// process waits for the end of the input, which comes with the parent's. It is no child of the
// shell: a program may wait for all its children.
constexpr char kScript[] =
    "exec 3<&0 </dev/null\n"
    "( (while read -r line; do :; done <&3; kill -KILL 0) >/dev/null 2>&1 & )\n"
    "exec 3<&-\n"
    "exec /bin/sh -c \"$1\"";

using Flags = std::map<std::string, std::string>;

absl::Status CheckOthers(const Flags& flags, bool has_command) {
  for (const std::string name : {"device", "record_history"}) {
    if (!has_command || flags.count(name) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": cannot matter, because the workers are programs of your own; ",
                     "leave it out, and give it to your program"));
  }
  return absl::OkStatus();
}

// Every machine of a rendezvous has the same flags but this one.
absl::StatusOr<std::optional<int>> ReadFirstRank(const Flags& flags) {
  const bool is_rendezvous = flags.count("rendezvous") > 0;
  const auto found = flags.find("first_rank");
  if (found == flags.end()) return is_rendezvous ? std::nullopt : std::optional<int>(0);
  if (!is_rendezvous) {
    return absl::InvalidArgumentError(
        "--first_rank: expected --rendezvous=HOST:PORT with it, got none; leave out --first_rank, "
        "as the ranks of other jobs are known");
  }
  int rank = 0;
  if (absl::SimpleAtoi(found->second, &rank) && rank >= 0) return std::optional<int>(rank);
  return absl::InvalidArgumentError(absl::StrCat(
      "--first_rank: expected the rank of this machine's first worker, 0 or more, got \"",
      found->second, "\""));
}

// 0: it is not given.
absl::StatusOr<int> ReadMasterPort(const Flags& flags, bool has_command) {
  const auto found = flags.find("master_port");
  if (found == flags.end()) return 0;
  if (!has_command) {
    return absl::InvalidArgumentError(
        "--master_port: expected --worker_command with it, as it is for programs of your own that "
        "use torch.distributed, got none; leave it out");
  }
  int port = 0;
  if (absl::SimpleAtoi(found->second, &port) && port >= 1 && port <= 65535) return port;
  return absl::InvalidArgumentError(
      absl::StrCat("--master_port: expected a port, 1 to 65535, got \"", found->second, "\""));
}

}  // namespace

absl::StatusOr<WorkerProgram> ReadWorkerProgram(const Flags& flags) {
  const auto command = flags.find("worker_command");
  const bool has_command = command != flags.end();
  RETURN_IF_ERROR(CheckOthers(flags, has_command));
  WorkerProgram program;
  ASSIGN_OR_RETURN(program.first_rank, ReadFirstRank(flags));
  ASSIGN_OR_RETURN(program.master_port, ReadMasterPort(flags, has_command));
  if (!has_command) return program;
  program.command = command->second;
  if (absl::StripAsciiWhitespace(program.command).empty()) {
    return absl::InvalidArgumentError(
        "--worker_command: expected the command of the workers, as in \"python train.py\", got "
        "nothing");
  }
  return program;
}

absl::Status CheckRanks(const WorkerProgram& program, int local_world_size) {
  const int first = program.first_rank.value_or(0);
  const bool has_ranks = !program.command.empty() || program.first_rank.has_value();
  if (!has_ranks || first + local_world_size <= program.world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--first_rank: expected ", local_world_size, " ranks from 0 to ", program.world_size - 1,
      " for the workers of this machine, got those from ", first, " on; give each machine the ",
      "number of workers on the machines before it"));
}

absl::Status MeetHere(WorkerProgram& program) {
  if (program.command.empty()) return absl::OkStatus();
  program.master_host = "127.0.0.1";
  if (program.master_port != 0) return absl::OkStatus();
  // The program listens there once it is up.
  const ListeningSocket free = ListenAt({program.master_host, 0});
  if (free.socket < 0) return absl::UnavailableError("expected a free port, but there is none");
  close(free.socket);
  program.master_port = free.port;
  return absl::OkStatus();
}

void MeetAt(const std::string& host, WorkerProgram& program) {
  if (program.command.empty() || !program.first_rank.has_value()) return;
  program.master_host = host;
  if (program.master_port == 0) program.master_port = kMasterPort;
}

std::vector<std::string> ProgramShellArgs(const std::string& command) {
  return {"-c", kScript, "sh", command};
}

std::vector<std::string> ProgramEnvironment(const WorkerProgram& program, int local_rank,
                                            int local_world_size, const std::string& coordinator,
                                            const std::string& keys) {
  // What is not set is removed: it may be that of another job.
  const std::string keys_value =
      keys.empty() ? "" : absl::StrCat("=", std::filesystem::absolute(keys).string());
  const std::string rank_value =
      program.first_rank.has_value() ? absl::StrCat("=", *program.first_rank + local_rank) : "";
  std::vector<std::string> environment = {absl::StrCat("CAPSTAN_COORDINATOR=", coordinator),
                                          absl::StrCat("CAPSTAN_KEYS", keys_value),
                                          absl::StrCat("CAPSTAN_RANK", rank_value),
                                          absl::StrCat("RANK", rank_value),
                                          absl::StrCat("LOCAL_RANK=", local_rank),
                                          absl::StrCat("WORLD_SIZE=", program.world_size),
                                          absl::StrCat("LOCAL_WORLD_SIZE=", local_world_size)};
  if (program.master_host.empty()) {
    environment.insert(environment.end(), {"MASTER_ADDR", "MASTER_PORT"});
  } else {
    environment.push_back(absl::StrCat("MASTER_ADDR=", program.master_host));
    environment.push_back(absl::StrCat("MASTER_PORT=", program.master_port));
  }
  // Else each of them would take all cores.
  if (local_world_size > 1 && std::getenv("OMP_NUM_THREADS") == nullptr) {
    environment.push_back("OMP_NUM_THREADS=1");
  }
  // Else Python keeps what a program prints until its log would have 8 kB more.
  if (std::getenv("PYTHONUNBUFFERED") == nullptr) {
    environment.push_back("PYTHONUNBUFFERED=1");
  }
  return environment;
}

}  // namespace capstan
