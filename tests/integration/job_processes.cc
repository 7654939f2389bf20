#include "tests/integration/job_processes.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/mutex.h"

namespace capstan {
namespace {

// Far more than a process takes to start on a busy machine.
constexpr absl::Duration kPatience = absl::Seconds(100);

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void JobProcesses::Start(const std::string& name, const std::string& program,
                         std::vector<std::string> args) {
  ChildProcess::Options options;
  options.program = program;
  options.args = std::move(args);
  options.log_path = path(name + ".log");
  auto process = ChildProcess::Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  processes_[name] = *std::move(process);
}

void JobProcesses::StartCoordinator(std::vector<std::string> job_flags) {
  StartCoordinatorAt("127.0.0.1:0", std::move(job_flags));
}

void JobProcesses::ReplaceCoordinator(std::vector<std::string> job_flags) {
  Signal("coordinator", SIGKILL);
  WaitForExit("coordinator", kPatience);
  std::remove(path("port").c_str());
  StartCoordinatorAt(coordinator_address_, std::move(job_flags));
}

void JobProcesses::StartCoordinatorAt(const std::string& address,
                                      std::vector<std::string> job_flags) {
  job_flags.push_back("--listen=" + address);
  job_flags.push_back("--port_file=" + path("port"));
  job_flags.push_back("--summary_json=" + path("summary.json"));
  Start("coordinator", "server/capstan_coordinator", std::move(job_flags));
  ASSERT_TRUE(WaitUntil(kPatience, [this] { return !ReadFile(path("port")).empty(); }))
      << Log("coordinator");
  coordinator_address_ = ReadFile(path("port"));
  if (!coordinator_address_.empty()) coordinator_address_.pop_back();  // the newline
}

void JobProcesses::StartMembers(int num_servers, int num_workers) {
  const std::vector<std::string> args = {"--coordinator=" + coordinator_address_,
                                         "--rpc_deadline_seconds=4"};
  for (int i = 0; i < num_servers; ++i) {
    Start(absl::StrCat("server-", i), "server/capstan_server", args);
    // One after the other: names and ids then agree.
    ASSERT_TRUE(WaitForLog(absl::StrCat("server-", i), "registered as server", kPatience));
  }
  for (int i = 0; i < num_workers; ++i) {
    Start(absl::StrCat("worker-", i), "worker/capstan_worker", args);
    ASSERT_TRUE(WaitForLog(absl::StrCat("worker-", i), "registered as worker", kPatience));
  }
}

void JobProcesses::Signal(const std::string& name, int signal) {
  processes_.at(name)->Signal(signal);
}

std::vector<pid_t> JobProcesses::ChildrenOf(const std::string& name, const std::string& program) {
  const pid_t parent = pid(name);
  std::istringstream children(
      ReadFile(absl::StrCat("/proc/", parent, "/task/", parent, "/children")));
  std::vector<pid_t> found;
  for (pid_t child; children >> child;) {
    // After its end it is a zombie. The kernel keeps 15 characters of a name.
    const std::string stat = ReadFile(absl::StrCat("/proc/", child, "/stat"));
    const bool is_one = absl::StrContains(stat, "(" + program.substr(0, 15));
    if (is_one && !absl::StrContains(stat, ") Z ")) found.push_back(child);
  }
  return found;
}

bool JobProcesses::WaitUntil(absl::Duration timeout, const std::function<bool()>& is_true) {
  const absl::Time deadline = clock_.Now() + timeout;
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  while (!is_true()) {
    if (clock_.Now() >= deadline) return false;
    clock_.WaitUntil(mutex, never, clock_.Now() + absl::Milliseconds(10));
  }
  return true;
}

ChildExit JobProcesses::WaitForExit(const std::string& name, absl::Duration timeout) {
  std::optional<ChildExit> exit;
  ChildProcess& process = *processes_.at(name);
  if (WaitUntil(timeout, [&] { return (exit = process.Poll()).has_value(); })) return *exit;
  ADD_FAILURE() << name << " did not end within " << timeout << "; its log: " << Log(name);
  return {/*code=*/1000, /*signal=*/0};
}

bool JobProcesses::WaitForLog(const std::string& name, const std::string& text,
                              absl::Duration timeout) {
  return WaitUntil(timeout, [&] { return Log(name).find(text) != std::string::npos; });
}

std::string JobProcesses::Log(const std::string& name) const {
  return ReadFile(path(name + ".log"));
}

std::string JobProcesses::LastLine(const std::string& name) const {
  std::string last;
  for (const absl::string_view line : absl::StrSplit(Log(name), '\n')) {
    if (!line.empty()) last = std::string(line);
  }
  return last;
}

}  // namespace capstan
