#ifndef TESTS_INTEGRATION_JOB_PROCESSES_H_
#define TESTS_INTEGRATION_JOB_PROCESSES_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/real_clock.h"
#include "deploy/launch/child_process.h"

namespace capstan {

// The real programs of a job, started one by one as on a cluster, each with its log. The destructor
// kills them. Fails the test (throws nothing) if an awaited event does not come in time.
class JobProcesses {
 public:
  // Logs go into `folder`. It must exist.
  explicit JobProcesses(std::string folder) : folder_(std::move(folder)) {}

  // Starts a program of this build, such as "server/capstan_server", under `name`.
  void Start(const std::string& name, const std::string& program, std::vector<std::string> args);
  // Starts a coordinator with these job flags, and waits until it listens.
  void StartCoordinator(std::vector<std::string> job_flags);
  // Kills the coordinator, and starts one with these flags at the same address.
  void ReplaceCoordinator(std::vector<std::string> job_flags);
  // Starts "server-0" ..., "worker-0" ... against the coordinator.
  void StartMembers(int num_servers, int num_workers);

  void Signal(const std::string& name, int signal);
  pid_t pid(const std::string& name) { return processes_.at(name)->pid(); }
  // Its running children with this program, such as "capstan_server".
  std::vector<pid_t> ChildrenOf(const std::string& name, const std::string& program);
  bool HasEnded(const std::string& name) { return processes_.at(name)->Poll().has_value(); }
  // Waits for the program's end. Exit code 1000: it did not end in time.
  ChildExit WaitForExit(const std::string& name, absl::Duration timeout);
  // Waits until the log of `name` contains `text`.
  bool WaitForLog(const std::string& name, const std::string& text, absl::Duration timeout);
  std::string Log(const std::string& name) const;
  // The last non-empty line of the log.
  std::string LastLine(const std::string& name) const;

  bool WaitUntil(absl::Duration timeout, const std::function<bool()>& is_true);

  const std::string& coordinator_address() const { return coordinator_address_; }
  std::string path(const std::string& file) const { return folder_ + "/" + file; }

 private:
  void StartCoordinatorAt(const std::string& address, std::vector<std::string> job_flags);

  const std::string folder_;
  RealClock clock_;
  std::string coordinator_address_;
  std::map<std::string, std::unique_ptr<ChildProcess>> processes_;
};

std::string ReadFile(const std::string& path);

}  // namespace capstan

#endif  // TESTS_INTEGRATION_JOB_PROCESSES_H_
