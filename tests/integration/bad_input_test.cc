// Mistakes of users. Each ends with one line and the expected input.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kFailure = 1;
constexpr int kWrongCommandLine = 2;

// Sends `bytes` to a port of this machine, and waits until the other side closes.
void SendBytes(const std::string& address, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in peer = {};
  peer.sin_family = AF_INET;
  peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  peer.sin_port = htons(std::stoi(address.substr(address.rfind(':') + 1)));
  ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)), 0);
  // The other side may close before it has read everything.
  EXPECT_NE(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  shutdown(fd, SHUT_WR);
  char ignored[256];
  while (recv(fd, ignored, sizeof(ignored), 0) > 0) {
  }
  close(fd);
}

class BadInputTest : public testing::Test {
 protected:
  BadInputTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = processes_->path(name);
    std::ofstream(path) << text;
    return path;
  }
  // Runs a program to its end. Expects the exit code, and `text` in the last line.
  void ExpectRefused(int exit_code, const std::string& program, std::vector<std::string> args,
                     const std::string& text) {
    const std::string name = absl::StrCat("run-", ++runs_);
    processes_->Start(name, program, args);
    const ChildExit exit = processes_->WaitForExit(name, absl::Seconds(30));
    EXPECT_EQ(exit.ToString(), absl::StrCat("exit code ", exit_code));
    EXPECT_THAT(processes_->LastLine(name), HasSubstr(text)) << processes_->Log(name);
  }
  void ExpectRunRefused(int exit_code, std::vector<std::string> flags, const std::string& text) {
    std::vector<std::string> args = {
        "run", absl::StrCat("--run_dir=", processes_->path("run"), runs_ + 1)};
    args.insert(args.end(), flags.begin(), flags.end());
    ExpectRefused(exit_code, "deploy/cli/capstan", args, text);
  }
  // Expects this failure of the job before all members had registered.
  void ExpectCoordinatorEnded(const std::string& reason) {
    processes_->Signal("coordinator", SIGTERM);  // Otherwise it answers for another lease.
    EXPECT_EQ(processes_->WaitForExit("coordinator", absl::Seconds(5)).code, kFailure);
    EXPECT_THAT(processes_->LastLine("coordinator"), HasSubstr(reason));
  }

  std::unique_ptr<JobProcesses> processes_;
  int runs_ = 0;
};

TEST_F(BadInputTest, Flags) {
  ExpectRunRefused(kWrongCommandLine, {"--consistency=eventual"},
                   "expected one of bsp, ssp, async; got \"eventual\"");
  for (const char* count : {"0", "-1", "5000", "many", "4294967296"}) {
    ExpectRunRefused(kWrongCommandLine, {absl::StrCat("--num_workers=", count)}, "--num_workers: ");
  }
  ExpectRunRefused(kWrongCommandLine, {"--consistency=ssp", "--staleness=-1"},
                   "expected 0 or more, got -1");
  ExpectRunRefused(
      kWrongCommandLine, {"--learning_rat=1"},
      "unknown flag \"--learning_rat=1\" (did you mean --learning_rate?); expected one of "
      "--job");
  ExpectRunRefused(
      kWrongCommandLine, {"--num_workers=many"},
      "flag --num_workers: expected a whole number from 0 to 4294967295; got \"many\"");
  ExpectRunRefused(kWrongCommandLine, {"--slice_bytes=100"},
                   "--slice_bytes: expected a multiple of 64 from 64 to 64MiB, got 100");
  ExpectRunRefused(kWrongCommandLine, {"--summary_json=" + processes_->path("none/summary.json")},
                   "--summary_json: expected a file that can be written");
  ExpectRefused(kWrongCommandLine, "server/capstan_coordinator", {"--consistency=eventual"},
                "expected one of bsp, ssp, async; got \"eventual\"");
  ExpectRefused(kWrongCommandLine, "server/capstan_server", {}, "expected --coordinator=HOST:PORT");
  ExpectRefused(kWrongCommandLine, "worker/capstan_worker", {}, "expected --coordinator=HOST:PORT");
  for (const char* program : {"worker/capstan_worker", "server/capstan_server"}) {
    for (const char* address :
         {"127.0.0.1:65536", "localhost", "http://localhost:80", "::1:4000"}) {
      ExpectRefused(kWrongCommandLine, program, {absl::StrCat("--coordinator=", address)},
                    absl::StrCat("--coordinator: expected host:port with a port from 1 to 65535, "
                                 "got \"",
                                 address, "\""));
    }
  }
  ExpectRefused(kWrongCommandLine, "worker/capstan_worker", {"--coordinatr=x"},
                "unknown flag --coordinatr (did you mean --coordinator?); --help lists the flags");
  ExpectRefused(kWrongCommandLine, "server/capstan_coordinator", {"--learning_rat=1"},
                "unknown flag --learning_rat (did you mean --learning_rate?); --help lists");
  ExpectRefused(kWrongCommandLine, "worker/capstan_worker", {"--rpc_deadline_seconds=long"},
                "--rpc_deadline_seconds: expected what --help says, got \"long\"");
  ExpectRefused(kWrongCommandLine, "worker/capstan_worker",
                {"--coordinator=127.0.0.1:1", "--rpc_deadline_seconds=0.1", "--health_listen=x"},
                "--health_listen: expected host:port");
  ExpectRefused(kWrongCommandLine, "server/capstan_coordinator", {"--listen=127.0.0.1:99999"},
                "--listen: expected host:port with a port from 0 to 65535, got "
                "\"127.0.0.1:99999\"");
}

TEST_F(BadInputTest, FlagsThatCannotMatter) {
  ExpectRunRefused(
      kWrongCommandLine, {"--optimizer=sgd", "--beta1=0.5", "--steps=1"},
      "--beta1: matters with --optimizer=adam or adamw or lion only, and the job has sgd");
  const std::string job = Write("adam.textproto", "optimizer { type: ADAM learning_rate: 0.001 }");
  ExpectRefused(kWrongCommandLine, "server/capstan_coordinator", {"--job=" + job, "--momentum=0.5"},
                "--momentum: matters with --optimizer=momentum or nesterov or rmsprop only");
  // The reverse: the flag fits the file, but not the defaults.
  processes_->StartCoordinator({"--job=" + job, "--beta1=0.5"});
}

TEST_F(BadInputTest, AnAddressWhereNobodyReachesAServer) {
  for (const std::string listen : {"0.0.0.0:0", "[::]:0", "0:0"}) {
    ExpectRefused(kWrongCommandLine, "server/capstan_server",
                  {"--coordinator=127.0.0.1:1", "--rpc_deadline_seconds=0.1", "--listen=" + listen},
                  "--advertise_host: expected the host under which workers reach this server");
  }
}

TEST_F(BadInputTest, AServerWithAWrongCommandLineEndsTheJob) {
  processes_->StartCoordinator({});
  const std::string problem =
      "--advertise_host: expected the host under which workers reach this server, got \"0.0.0.0\", "
      "which is every interface of a machine";
  ExpectRefused(kWrongCommandLine, "server/capstan_server",
                {"--coordinator=" + processes_->coordinator_address(), "--listen=127.0.0.1:0",
                 "--advertise_host=0.0.0.0"},
                problem);
  ExpectCoordinatorEnded("a server failed before it registered: " + problem);
}

TEST_F(BadInputTest, AMemberThatFailsBeforeItRegistersEndsTheJob) {
  const std::string layers = Write("layers.csv", "layer,tensor,elements,million_macs\n0,a,x,1\n");
  processes_->StartCoordinator({"--num_servers=1", "--num_workers=1", "--model=replay",
                                "--field=model.replay.layers=" + layers});
  processes_->StartMembers(/*num_servers=*/1, /*num_workers=*/0);
  const std::string problem = "layers.csv, line 2: expected a number of elements";
  ExpectRefused(kFailure, "worker/capstan_worker",
                {"--coordinator=" + processes_->coordinator_address()}, problem);
  EXPECT_EQ(processes_->WaitForExit("server-0", absl::Seconds(5)).code, kFailure);
  const std::string reason = "a worker failed before it registered: " + layers;
  EXPECT_THAT(processes_->LastLine("server-0"), AllOf(HasSubstr(reason), HasSubstr(problem)));
  ExpectCoordinatorEnded(reason);
}

TEST_F(BadInputTest, AWorkerThatIsRefusedDoesNotEndTheJob) {
  const std::string data = Write("data.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,9,0\n");
  processes_->StartCoordinator({"--data_format=csv", "--data_path=" + data});
  processes_->StartMembers(/*num_servers=*/0, /*num_workers=*/1);
  ASSERT_TRUE(processes_->WaitForLog("worker-0", "registered as worker 0", absl::Seconds(30)));
  Write("data.csv", "1,2,3,0\n3,4,5,1\n5,6,7,0\n7,8,9,1\n9,9,9,0\n");
  ExpectRefused(kFailure, "worker/capstan_worker",
                {"--coordinator=" + processes_->coordinator_address()},
                "start every worker with the same job");
  processes_->Start("status", "deploy/cli/capstan",
                    {"status", "--coordinator=" + processes_->coordinator_address()});
  EXPECT_EQ(processes_->WaitForExit("status", absl::Seconds(10)).ToString(), "exit code 0");
  EXPECT_THAT(processes_->Log("status"), HasSubstr("waiting for members"));
}

TEST_F(BadInputTest, AJobWhoseMembersDoNotComeSaysWhoIsMissing) {
  processes_->StartCoordinator({"--registration_seconds=8"});
  processes_->StartMembers(/*num_servers=*/1, /*num_workers=*/0);
  EXPECT_EQ(processes_->WaitForExit("server-0", absl::Seconds(20)).code, kFailure);
  const std::string reason =
      "1 of 2 servers (0) and 0 of 2 workers have registered; server 1 and workers 0 to 1 missing";
  EXPECT_THAT(processes_->LastLine("server-0"), HasSubstr(reason));
  for (int late = 0; late < 4; ++late) {
    ExpectRefused(kFailure, "worker/capstan_worker",
                  {"--coordinator=" + processes_->coordinator_address()},
                  "the job has ended already (after 8 s (--registration_seconds) " + reason);
  }
  ExpectCoordinatorEnded(reason);
}

TEST_F(BadInputTest, AMemberThatCannotWriteItsTraceEndsTheJob) {
  processes_->StartCoordinator({});
  ExpectRefused(kFailure, "server/capstan_server",
                {"--coordinator=" + processes_->coordinator_address(), "--trace=/no/folder/trace"},
                "/no/folder/trace: cannot be written");
  ExpectCoordinatorEnded("a server failed before it registered: trace file /no/folder/trace");
}

TEST_F(BadInputTest, JobFiles) {
  ExpectRunRefused(kFailure, {"--job=" + processes_->path("none.textproto")},
                   "none.textproto: expected a readable file, got \"No such file or directory\"");
  const std::string misspelt =
      Write("misspelt.textproto", "name: \"x\"\noptimizer { learnin_rate: 0.1 }\n");
  ExpectRunRefused(kWrongCommandLine, {"--job=" + misspelt}, "misspelt.textproto:2:");
  ExpectRunRefused(kWrongCommandLine, {"--job=" + misspelt},
                   "(did you mean learning_rate?); expected one of: type, learning_rate, momentum");
}

TEST_F(BadInputTest, DataFiles) {
  const auto csv = [](const std::string& path) {
    return std::vector<std::string>{"--data_format=csv", "--data_path=" + path};
  };
  ExpectRunRefused(kFailure, csv(processes_->path("none.csv")),
                   "none.csv does not exist: check the path");
  ExpectRunRefused(kWrongCommandLine, {"--data_format=csv"},
                   "--data_path: expected the file of samples");
  ExpectRunRefused(kFailure, csv(Write("columns.csv", "1,2,0\n1,2,1\n1,0\n")),
                   "columns.csv, line 3: expected 3 columns as in line 1, got 2");
  std::vector<std::string> labels = csv(Write("labels.csv", "1,2,0\n1,2,1\n1,3,7\n"));
  labels.push_back("--classes=2");
  ExpectRunRefused(kFailure, labels,
                   "labels.csv, line 3: column 2 (from 0): expected a label below 2, got 7");

  const std::string truncated = processes_->path("truncated.csv.gz");
  const gzFile file = gzopen(truncated.c_str(), "wb");
  std::string rows;
  for (int i = 0; i < 5000; ++i) rows += absl::StrCat(i * 7919 % 1000, ",", i, ",", i % 2, "\n");
  gzwrite(file, rows.data(), static_cast<unsigned>(rows.size()));
  gzclose(file);
  const std::string bytes = ReadFile(truncated);
  std::ofstream(truncated, std::ios::trunc) << bytes.substr(0, bytes.size() / 2);
  ExpectRunRefused(kFailure, csv(truncated), "truncated.csv.gz: truncated gzip data");
}

TEST_F(BadInputTest, ADataSetThatDoesNotFitTheTestFile) {
  std::vector<std::string> flags = {
      "--data_format=csv", "--data_path=" + Write("train.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n"),
      "--test_path=" + Write("test.csv", "1,2,3,0\n")};
  ExpectRunRefused(kFailure, flags, "must have the same features");
}

TEST_F(BadInputTest, PortInUse) {
  processes_->StartCoordinator({});
  ExpectRefused(kFailure, "server/capstan_coordinator",
                {"--listen=" + processes_->coordinator_address()}, "the port is in use");
  ExpectRefused(kFailure, "server/capstan_server",
                {"--coordinator=" + processes_->coordinator_address(),
                 "--listen=" + processes_->coordinator_address()},
                "the port is in use");
}

TEST_F(BadInputTest, UnreachableCoordinator) {
  for (const std::string program : {"server/capstan_server", "worker/capstan_worker"}) {
    ExpectRefused(kFailure, program, {"--coordinator=127.0.0.1:1", "--rpc_deadline_seconds=1"},
                  "coordinator 127.0.0.1:1 has been unreachable for 1 s");
  }
  ExpectRefused(kFailure, "deploy/cli/capstan", {"status", "--coordinator=127.0.0.1:1"},
                "coordinator 127.0.0.1:1: expected its status");
}

TEST_F(BadInputTest, AWorkerTooManyIsTurnedAway) {
  processes_->StartCoordinator({"--num_workers=1", "--num_servers=1", "--steps=1000000"});
  processes_->StartMembers(/*num_servers=*/1, /*num_workers=*/1);
  ExpectRefused(kFailure, "worker/capstan_worker",
                {"--coordinator=" + processes_->coordinator_address()}, "the job has its 1 worker");
}

TEST_F(BadInputTest, GarbageAtTheCoordinatorsPortDoesNoHarm) {
  processes_->StartCoordinator({});
  SendBytes(processes_->coordinator_address(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  SendBytes(processes_->coordinator_address(), std::string(100'000, '\xff'));
  // A valid preface, and then no frame.
  SendBytes(processes_->coordinator_address(),
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(100'000, '\x00'));
  processes_->Start("status", "deploy/cli/capstan",
                    {"status", "--coordinator=" + processes_->coordinator_address()});
  EXPECT_EQ(processes_->WaitForExit("status", absl::Seconds(10)).ToString(), "exit code 0");
  EXPECT_THAT(processes_->Log("status"), HasSubstr("job capstan: waiting for members"));
}

}  // namespace
}  // namespace capstan
