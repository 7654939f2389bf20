#ifndef DEPLOY_LAUNCH_WORKER_PROGRAM_H_
#define DEPLOY_LAUNCH_WORKER_PROGRAM_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace capstan {

// Workers that are a program of the user's: how it is started, and what its environment tells it.
struct WorkerProgram {
  // For /bin/sh. Empty: the workers are capstan_worker.
  std::string command;
  // Number of workers of the whole job.
  int world_size = 1;
  // The rank of this machine's first worker, whatever the workers are. Nothing: they have no rank,
  // and the job gives them one when they join.
  std::optional<int> first_rank = 0;
  // Where torch.distributed meets, if the program uses it: at the worker with rank 0. No host:
  // nobody is told. Port 0: one that is chosen.
  std::string master_host{};
  int master_port = 0;
};

inline constexpr int kMasterPort = 29500;  // of several machines, as torchrun's

// The program in the flags worker_command, first_rank and master_port. INVALID_ARGUMENT names the
// flag, also one that is without effect on programs.
absl::StatusOr<WorkerProgram> ReadWorkerProgram(const std::map<std::string, std::string>& flags);

// Checks that the ranks of this machine's workers are ranks of the job.
absl::Status CheckRanks(const WorkerProgram& program, int local_world_size);

// Makes the programs of a job on this machine alone meet here, at a free port unless one is given.
// UNAVAILABLE: there is none.
absl::Status MeetHere(WorkerProgram& program);

// Makes them meet on the machine `host`, whose first worker has rank 0, if they have ranks.
void MeetAt(const std::string& host, WorkerProgram& program);

// Arguments of /bin/sh that run the command. Its standard input is empty. When that of the shell
// ends, its process group is killed: so all its processes end with the one that has started them,
// however that ends.
std::vector<std::string> ProgramShellArgs(const std::string& command);

// Changes of the environment, as in ChildProcess::Options. `keys`: folder; empty: none.
std::vector<std::string> ProgramEnvironment(const WorkerProgram& program, int local_rank,
                                            int local_world_size, const std::string& coordinator,
                                            const std::string& keys);

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_WORKER_PROGRAM_H_
