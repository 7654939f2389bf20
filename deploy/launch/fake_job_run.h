#ifndef DEPLOY_LAUNCH_FAKE_JOB_RUN_H_
#define DEPLOY_LAUNCH_FAKE_JOB_RUN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/real_clock.h"
#include "deploy/launch/fake_programs.h"
#include "deploy/launch/job_runner.h"
#include "deploy/launch/local_job.h"
#include "deploy/launch/progress_display.h"
#include "deploy/launch/restart_plan.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Runs a job of one server and two workers. Their programs are scripts.
class FakeJobRun {
 public:
  explicit FakeJobRun(const std::string& name) : programs_(name) {
    Coordinator(FakePrograms::kRunForever);
    programs_.Write("capstan_server", FakePrograms::kRunForever);
    programs_.Write("capstan_worker", FakePrograms::kRunForever);
    std::filesystem::create_directories(programs_.Path("run"));
  }

  // The coordinator's script after it listens.
  void Coordinator(const std::string& script) {
    programs_.Write("capstan_coordinator", FakePrograms::kListen + std::string("\n") + script);
  }
  const FakePrograms& programs() const { return programs_; }

  absl::Status Result() {
    LocalJob::Options job_options;
    job_options.coordinator_program = programs_.Path("capstan_coordinator");
    job_options.server_program = programs_.Path("capstan_server");
    job_options.worker_program = programs_.Path("capstan_worker");
    job_options.run_dir = programs_.Path("run");
    job_options.job_file = "job.textproto";
    job_options.keeps_state = keeps_state;
    job_options.num_workers = 2;
    job_options.has_all_members = has_all_members;
    job_options.program = {worker_command, /*world_size=*/2};
    LocalJob job(job_options);
    ProgressDisplay display({&out, [] { return std::nullopt; }, v1::ClusterSpec()});
    JobRunner::Options options;
    options.job = &job;
    options.get_status = [this](const std::string&) {
      ++questions;
      if (answer) return answer();
      if (absl::StrContains(out.str(), "the others go on")) {
        std::ofstream(programs_.Path("reported")) << "yes";
      }
      return Registered(status);
    };
    options.report_early_failure = report_early_failure;
    options.take_interrupt = [this] {
      if (interrupt_when && interrupt_when()) interrupt_after = questions;
      return questions >= interrupt_after && std::exchange(interrupt_after, kNever) != kNever;
    };
    options.restarts = restarts;
    options.display = &display;
    options.clock = clock;
    options.poll_interval = absl::Milliseconds(2);
    options.status_interval = absl::Milliseconds(2);
    options.start_timeout = start_timeout;
    options.end_timeout = end_timeout;
    options.lease = lease;
    options.failure_timeout = failure_timeout;
    options.late_timeout = late_timeout;
    options.server_patience = server_patience;
    const absl::Status result = JobRunner(options).Run();
    EXPECT_FALSE(job.HasRunning());
    return result;
  }

  // The coordinator's answer, without the members.
  absl::StatusOr<v1::GetStatusReply> status = v1::GetStatusReply();
  // Makes the whole answer instead, if it is set.
  std::function<absl::StatusOr<v1::GetStatusReply>()> answer;
  std::function<absl::Status(v1::HeartbeatRequest::Role, const std::string&)> report_early_failure;
  RestartPlan* restarts = nullptr;
  absl::Duration start_timeout = absl::InfiniteDuration();
  absl::Duration end_timeout = absl::Milliseconds(200);
  absl::Duration lease = absl::ZeroDuration();
  absl::Duration failure_timeout = absl::Milliseconds(200);
  absl::Duration late_timeout = absl::InfiniteDuration();
  absl::Duration server_patience = absl::Milliseconds(50);
  RealClock real_clock;
  Clock* clock = &real_clock;
  bool keeps_state = false;
  bool has_all_members = true;
  static constexpr int kNever = 1'000'000;
  int interrupt_after = kNever;          // answers
  std::function<bool()> interrupt_when;  // also then, if it is set
  std::string worker_command;            // of programs in the place of capstan_worker; empty: none
  std::string never_registers;
  std::string has_left;                        // a worker that is no member any more; empty: none
  static constexpr char kLeftFile[] = "left";  // written when the coordinator has answered so
  std::vector<std::string> registered;         // in order
  int questions = 0;
  std::ostringstream out;

  std::string Log(const std::string& process) const {
    std::ostringstream text;
    text << std::ifstream(programs_.Path("run/" + process + ".log")).rdbuf();
    return text.str();
  }

 private:
  // Has the started members: those with a log. Programs register together, others
  // one at a time.
  absl::StatusOr<v1::GetStatusReply> Registered(absl::StatusOr<v1::GetStatusReply> reply) {
    int newcomers = 0;
    for (const std::string name : {"server-0", "worker-0", "worker-1"}) {
      if (name == never_registers ||
          !std::filesystem::exists(programs_.Path("run/" + name + ".log")))
        continue;
      if (std::find(registered.begin(), registered.end(), name) != registered.end()) continue;
      registered.push_back(name);
      ++newcomers;
    }
    EXPECT_LE(newcomers, worker_command.empty() ? 1 : 2);
    if (!reply.ok()) return reply;
    for (const std::string& name : registered) {
      if (name[0] == 's') {
        reply->mutable_view()->add_servers();
      } else {
        reply->mutable_view()->add_workers()->set_is_live(name != has_left);
      }
      if (name == has_left) std::ofstream(programs_.Path(kLeftFile)) << "yes";
    }
    return reply;
  }

  FakePrograms programs_;
};

inline absl::StatusOr<v1::GetStatusReply> InPhase(v1::Phase phase, const std::string& reason = "") {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(phase);
  status.mutable_view()->set_reason(reason);
  return status;
}

// A script to wait for `file` in the folder of the programs.
inline std::string WaitForFile(const FakePrograms& programs, const std::string& file) {
  return "until [ -e " + programs.Path(file) + " ]; do sleep 0.01; done\n";
}

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_FAKE_JOB_RUN_H_
