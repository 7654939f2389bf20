#ifndef DEPLOY_LAUNCH_LOCAL_JOB_H_
#define DEPLOY_LAUNCH_LOCAL_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "deploy/launch/child_process.h"
#include "deploy/launch/run_folder.h"
#include "deploy/launch/worker_program.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Path of this process's own program.
absl::StatusOr<std::string> OwnProgramPath();

// The path of another Capstan program. `program` is its path in the repository, such as
// "server/capstan_server". Looks beside `own_path` (as installed), in the Bazel runfiles of
// `own_path`, and in Bazel's output tree. NOT_FOUND names the places.
absl::StatusOr<std::string> FindProgram(const std::string& own_path, const std::string& program);

// The processes of a job on this machine, each with a log in the run directory. The coordinator and
// other members may be on other machines. The job can start again: it then has another life, with
// new processes. They end with this object. Not thread-safe.
class LocalJob {
 public:
  struct Options {
    // Paths of the programs. Required.
    std::string coordinator_program;
    std::string server_program;
    std::string worker_program;
    // Existing folder for logs and results. It has no files of an earlier run. Required.
    std::string run_dir;
    // The job's file. Required.
    std::string job_file;
    // The coordinator keeps the job in the run directory: another one can go on with it.
    bool keeps_state = false;
    // Those of this machine.
    int num_servers = 1;
    int num_workers = 1;
    // Whether these are all members of the job.
    bool has_all_members = true;
    // Where the coordinator listens, host:port. With port 0 later lives keep the first one's.
    std::string listen = "127.0.0.1:0";
    // The host under which members reach the coordinator; empty: that of `listen`.
    std::string coordinator_host;
    // --network of the servers; empty: they listen on loopback.
    std::string network;
    // The workers' --device values, given out in turn; at least one.
    std::vector<std::string> devices = {"cpu"};
    // How long members look for the coordinator.
    double rpc_deadline_seconds = 30;
    // Existing folder for the workers' histories; empty: none are recorded.
    std::string record_history;
    // Workers and servers write traces into the run directory: "worker-0.trace.json".
    bool has_trace = false;
    // Folder of the keys of all processes; empty: none.
    std::string keys;
    // Plaintext between machines.
    bool is_insecure = false;
    // host:port of the coordinator's live page; empty: none.
    std::string http_listen;
    // The workers' standard input is that of this process.
    bool shares_input = false;
    // What takes the place of worker_program, if it has a command. `devices`, `record_history` and
    // `has_trace` do not concern it. Its first_rank is that of any workers.
    WorkerProgram program;
  };

  enum class Role { kCoordinator, kServer, kWorker };

  // A process after its end.
  struct Ended {
    std::string name;  // "worker-0"
    Role role;
    int index = 0;            // among the members of its role
    std::optional<int> rank;  // of a worker, if it is known
    std::string address;      // of a server, once it has registered
    ChildExit exit;
    std::string last_line;  // LastErrorLine of what this process has logged
    // For a worker that is a program of the user's: the end of its log. Others have none.
    bool is_program = false;
    std::vector<std::string> last_lines;

    // "worker-0 ended (exit code 1): no memory".
    std::string ToString() const;
    // The same if it has ended before the job had all its members.
    std::string EarlyEndText() const;
    // "worker-0 | ...", for people.
    std::vector<std::string> LogLines() const;
    // Whether the worker is no member any more in the view.
    bool HadLeft(const v1::JobView& view) const;
  };

  explicit LocalJob(Options options) : options_(std::move(options)), listen_(options_.listen) {}

  // `restore`: folder of the checkpoint to go on from, instead of the job's own; empty: the job's.
  absl::Status StartCoordinator(const std::string& restore = "");
  // host:port, as soon as the coordinator listens; nothing before.
  std::optional<std::string> CoordinatorAddress() const;
  // Starts the next member: first all servers, then the workers. The caller waits until a member
  // has registered before it starts the next one. So names agree with ids. It does not wait for
  // programs of the user's: they may need each other, and have ranks.
  absl::Status StartNextMember(const std::string& coordinator_address);
  // Starts another process under the name of an ended one. A worker has its device and id. A
  // coordinator listens where the lost one did. It goes on with the job if that is kept.
  absl::Status Replace(const Ended& lost, const std::string& coordinator_address);
  bool HasStartedAllMembers() const {
    return servers_started_ == options_.num_servers && workers_started_ == options_.num_workers;
  }
  bool has_all_members() const { return options_.has_all_members; }
  bool keeps_state() const { return options_.keeps_state; }
  bool runs_programs() const { return !options_.program.command.empty(); }
  bool HasRunningProgram() const { return runs_programs() && HasRunning(Role::kWorker); }
  // The worker of this rank, if it runs here: "worker-0".
  std::optional<std::string> RunningWorker(int rank) const;
  // The server that has registered with this address, if it runs here: "server-0".
  std::optional<std::string> RunningServer(const std::string& address);
  int servers_started() const { return servers_started_; }
  int workers_started() const { return workers_started_; }

  // The processes ended since the last call; the coordinator first.
  std::vector<Ended> TakeEnded();
  bool HasRunning() const { return !running_.empty(); }
  bool HasRunning(Role role) const;
  // TakeEnded has it soon. Does nothing when no worker of this rank runs here.
  void KillWorker(int rank);
  // The same for the server that has registered with this address.
  void KillServer(const std::string& address);
  // For the end of the job: kills servers that do not hear of it, as they are lost to the job, or
  // have not come to it in another one's place.
  void KillServersOutside(const v1::JobView& view);
  // Does nothing when the coordinator does not run.
  void SignalCoordinator(int signal);
  // Returns when all processes have ended. What the coordinator has kept is removed.
  void KillAll();
  // The same, and forgets them: the next call is StartCoordinator.
  void Reset();

  const std::string& run_dir() const { return options_.run_dir; }
  // Written by the coordinator at the end of the job. After a failure it may be missing.
  std::string summary_path() const { return absl::StrCat(options_.run_dir, "/", kSummaryFile); }
  bool HasSummary() const;

 private:
  struct Child {
    std::string name;
    Role role;
    int index;
    int64_t earlier_log_bytes;  // of the processes with this name before it
    bool is_replacement;
    std::unique_ptr<ChildProcess> process;
    std::string address;  // as in Ended, as soon as somebody has asked for it
  };

  absl::Status StartServer(int index, const std::string& coordinator_address, bool is_replacement);
  absl::Status StartWorker(int index, const std::string& coordinator_address, bool is_replacement);
  // Null: no worker of this rank runs here.
  const Child* FindWorker(int rank) const;
  // Null: no server with this address runs here.
  const Child* FindServer(const std::string& address);
  // Where a server listens; empty: it has not registered.
  const std::string& AddressOf(Child& child) const;
  std::vector<std::string> MemberArgs(const std::string& coordinator_address) const;
  void AddSecurityFlags(std::vector<std::string>& args) const;
  absl::Status StartProgram(int index, const std::string& coordinator_address);
  // `process`: without its log.
  absl::Status StartChild(std::string name, Role role, int index, ChildProcess::Options process,
                          bool is_replacement = false);
  Ended EndOf(Child& child, const ChildExit& exit) const;
  void AddTraceFlag(const std::string& name, std::vector<std::string>& args) const;
  std::string LogPath(const std::string& name) const;
  std::string PortPath() const { return absl::StrCat(options_.run_dir, "/", kPortFile); }
  std::string StatePath() const { return absl::StrCat(options_.run_dir, "/", kStateFolder); }

  const Options options_;
  std::string listen_;          // where the next coordinator listens
  std::string restore_;         // of this life
  std::vector<Child> running_;  // in order of start
  int servers_started_ = 0;
  int workers_started_ = 0;
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_LOCAL_JOB_H_
