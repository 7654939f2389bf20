// Probes of the programs, over HTTP, before, while and after the job trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/job_processes.h"
#include "tests/process/tcp_ports.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr char kFlag[] = "--health_listen=127.0.0.1:0";
constexpr char kWaitsForMembers[] = "503 waits for all members of the job";
constexpr absl::Duration kPatience = absl::Seconds(30);

class HealthTest : public testing::Test {
 protected:
  HealthTest() { BeginAnew(); }
  // In a new folder.
  void BeginAnew() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }
  void StartMember(const std::string& name, const std::string& program,
                   const std::string& health_flag = kFlag) {
    processes_->Start(name, program,
                      {"--coordinator=" + processes_->coordinator_address(),
                       "--rpc_deadline_seconds=20", health_flag});
  }
  // The address for probes, from the log of `name`.
  std::string ProbeAddress(const std::string& name) {
    const std::string before = "answers probes at ";
    EXPECT_TRUE(processes_->WaitForLog(name, before, kPatience)) << processes_->Log(name);
    const std::string log = processes_->Log(name);
    const size_t begin = log.find(before) + before.size();
    return log.substr(begin, log.find('\n', begin) - begin);
  }
  // The code and the body of the answer, such as "200 ok".
  std::string Probe(const std::string& name, const std::string& path) {
    const std::string address = ProbeAddress(name);
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
    const std::string answer =
        AskTcpPort(static_cast<uint16_t>(port), "GET " + path + " HTTP/1.1\r\n\r\n", /*seconds=*/10)
            .value_or("");
    const std::string version = "HTTP/1.1 ";
    const size_t body = answer.find("\r\n\r\n");
    if (answer.rfind(version, 0) != 0 || body == std::string::npos) return "no HTTP: " + answer;
    return absl::StrCat(answer.substr(version.size(), 3), " ",
                        answer.substr(body + 4, answer.size() - body - 5));
  }
  // Expects this answer to /readyz in time, and a process that lives.
  void ExpectReadyz(const std::string& name, const std::string& expected) {
    std::string last;
    EXPECT_TRUE(processes_->WaitUntil(kPatience,
                                      [&] { return (last = Probe(name, "/readyz")) == expected; }))
        << name << " answers " << last << "\n"
        << processes_->Log(name);
    EXPECT_EQ(Probe(name, "/healthz"), "200 ok") << name;
  }
  void ExpectFailure(const std::string& name, const std::string& text, int code = 1) {
    EXPECT_EQ(processes_->WaitForExit(name, kPatience).code, code) << name;
    EXPECT_THAT(processes_->LastLine(name), HasSubstr(text));
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(HealthTest, MembersAreReadyOnceTheJobTrainsAndNothingIsReadyAtTheEnd) {
  processes_->StartCoordinator({"--num_servers=1", "--num_workers=2", "--steps=1000000", kFlag});
  ExpectReadyz("coordinator", "200 ok");
  StartMember("server", "server/capstan_server");
  StartMember("worker-0", "worker/capstan_worker");
  for (const char* const name : {"server", "worker-0"}) {
    ExpectReadyz(name, kWaitsForMembers);
  }

  StartMember("worker-1", "worker/capstan_worker");
  for (const char* const name : {"coordinator", "server", "worker-0", "worker-1"}) {
    ExpectReadyz(name, "200 ok");
  }

  // The coordinator stays until its lease to the stopped worker has run out.
  processes_->Signal("worker-1", SIGSTOP);
  processes_->Signal("coordinator", SIGTERM);
  ExpectReadyz("coordinator", "503 interrupted by SIGTERM");
}

TEST_F(HealthTest, AMemberWithoutACoordinatorLivesAndIsNotReady) {
  for (const std::string name : {"server", "worker"}) {
    processes_->Start(name, name + "/capstan_" + name, {"--coordinator=127.0.0.1:1", kFlag});
    ExpectReadyz(name, "503 waits for the coordinator");
  }
}

TEST_F(HealthTest, AMemberThatCannotListenEndsTheJobWithTheReason) {
  for (const std::string name : {"server", "worker"}) {
    BeginAnew();
    processes_->StartCoordinator({"--num_servers=1", "--num_workers=1", "--lease_seconds=1.5",
                                  "--heartbeat_seconds=0.2", kFlag});
    const std::string taken = ProbeAddress("coordinator");
    StartMember(name, name + "/capstan_" + name, "--health_listen=" + taken);
    const std::string reason = "cannot listen on " + taken + ": the port is in use";
    ExpectFailure(name, reason);
    ExpectFailure("coordinator", reason);
  }
}

TEST_F(HealthTest, ACoordinatorRefusesAMalformedAddress) {
  processes_->Start("coordinator", "server/capstan_coordinator", {"--health_listen=localhost"});
  ExpectFailure("coordinator", "--health_listen: expected host:port", /*code=*/2);
}

}  // namespace
}  // namespace capstan
