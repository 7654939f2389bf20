#include "deploy/launch/local_job.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "common/base/real_clock.h"
#include "deploy/launch/fake_programs.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

LocalJob::Options OptionsFor(const FakePrograms& programs) {
  LocalJob::Options options;
  options.coordinator_program = programs.Path("capstan_coordinator");
  options.server_program = programs.Path("capstan_server");
  options.worker_program = programs.Path("capstan_worker");
  options.run_dir = programs.Path("run");
  options.job_file = "job.textproto";
  options.num_servers = 2;
  options.num_workers = 1;
  options.rpc_deadline_seconds = 2.5;
  std::filesystem::create_directories(options.run_dir);
  return options;
}

void StartMembers(LocalJob* job) {
  while (!job->HasStartedAllMembers()) ASSERT_TRUE(job->StartNextMember("127.0.0.1:7").ok());
}

// Waits until `condition` holds.
void WaitFor(const std::function<bool()>& condition) {
  RealClock clock;
  Mutex mutex;
  CondVar never;
  while (!condition()) {
    MutexLock lock(&mutex);
    clock.WaitUntil(mutex, never, clock.Now() + absl::Milliseconds(5));
  }
}

// --listen of each life of a coordinator that logs its arguments.
std::vector<std::string> Listens(const LocalJob& job) {
  std::ifstream log(job.run_dir() + "/coordinator.log");
  std::vector<std::string> listens;
  constexpr absl::string_view kFlag = "--listen=";
  for (std::string word; log >> word;) {
    if (absl::StartsWith(word, kFlag)) listens.push_back(word.substr(kFlag.size()));
  }
  return listens;
}

TEST(LocalJobTest, AddressAppearsWhenTheCoordinatorListens) {
  const FakePrograms programs("address");
  programs.Write("capstan_coordinator",
                 std::string(FakePrograms::kListen) + "\n" + FakePrograms::kRunForever);
  LocalJob job(OptionsFor(programs));
  EXPECT_FALSE(job.CoordinatorAddress().has_value());
  ASSERT_TRUE(job.StartCoordinator().ok());
  WaitFor([&job] { return job.CoordinatorAddress().has_value(); });
  EXPECT_EQ(*job.CoordinatorAddress(), "127.0.0.1:1");
}

TEST(LocalJobTest, MembersGetTheAddressTheDeadlineAndALogEach) {
  const FakePrograms programs("members");
  programs.Write("capstan_server", "echo $@ in server");
  programs.Write("capstan_worker", "echo $@ in worker; exit 4");
  LocalJob job(OptionsFor(programs));
  StartMembers(&job);
  std::map<std::string, LocalJob::Ended> ended;
  WaitFor([&] {
    for (const LocalJob::Ended& process : job.TakeEnded()) ended[process.name] = process;
    return !job.HasRunning();
  });
  ASSERT_EQ(ended.size(), 3u);
  EXPECT_EQ(ended["server-1"].last_line,
            "--coordinator=127.0.0.1:7 --rpc_deadline_seconds=2.5 --listen=127.0.0.1:0 in server");
  EXPECT_TRUE(ended["server-0"].exit.ok());
  EXPECT_EQ(ended["worker-0"].last_line,
            "--coordinator=127.0.0.1:7 --rpc_deadline_seconds=2.5 --device=cpu in worker");
  EXPECT_EQ(ended["worker-0"].exit.code, 4);
  EXPECT_EQ(ended["worker-0"].role, LocalJob::Role::kWorker);
}

TEST(LocalJobTest, WorkersTakeTheDevicesInTurn) {
  const FakePrograms programs("devices");
  programs.Write("capstan_server", "exit 0");
  programs.Write("capstan_worker", "echo $@");
  LocalJob::Options options = OptionsFor(programs);
  options.num_workers = 3;
  options.devices = {"cuda:0", "cuda:1"};
  LocalJob job(options);
  StartMembers(&job);
  std::map<std::string, std::string> last_line;
  WaitFor([&] {
    for (const LocalJob::Ended& process : job.TakeEnded()) {
      last_line[process.name] = process.last_line;
    }
    return !job.HasRunning();
  });
  EXPECT_THAT(last_line["worker-0"], HasSubstr("--device=cuda:0"));
  EXPECT_THAT(last_line["worker-1"], HasSubstr("--device=cuda:1"));
  EXPECT_THAT(last_line["worker-2"], HasSubstr("--device=cuda:0"));
}

TEST(LocalJobTest, WorkersRecordTheirHistoriesWhenAskedTo) {
  const FakePrograms programs("histories");
  programs.Write("capstan_server", "echo $@");
  programs.Write("capstan_worker", "echo $@");
  LocalJob::Options options = OptionsFor(programs);
  options.record_history = "some/folder";
  LocalJob job(options);
  StartMembers(&job);
  WaitFor([&] {
    for (const LocalJob::Ended& process : job.TakeEnded()) {
      EXPECT_EQ(process.last_line.find("--record_history=some/folder") != std::string::npos,
                process.role == LocalJob::Role::kWorker)
          << process.last_line;
    }
    return !job.HasRunning();
  });
}

TEST(LocalJobTest, WorkersAndServersAreTracedWhenAskedTo) {
  const FakePrograms programs("traces");
  programs.Write("capstan_server", "echo $@");
  programs.Write("capstan_worker", "echo $@");
  LocalJob::Options options = OptionsFor(programs);
  options.has_trace = true;
  LocalJob job(options);
  StartMembers(&job);
  WaitFor([&] {
    for (const LocalJob::Ended& process : job.TakeEnded()) {
      EXPECT_THAT(process.last_line,
                  HasSubstr("--trace=" + options.run_dir + "/" + process.name + ".trace.json"));
    }
    return !job.HasRunning();
  });
}

TEST(LocalJobTest, AProgramTakesThePlaceOfTheWorkerWithItsRank) {
  const FakePrograms programs("program");
  programs.Write("capstan_server", "exit 0");
  LocalJob::Options options = OptionsFor(programs);
  options.program = {"echo one; echo $RANK $LOCAL_RANK $WORLD_SIZE $CAPSTAN_COORDINATOR; exit 4",
                     /*world_size=*/5, /*first_rank=*/3};
  options.num_workers = 2;
  LocalJob job(options);
  StartMembers(&job);
  std::map<std::string, LocalJob::Ended> ended;
  const auto all_end = [&] {
    for (const LocalJob::Ended& process : job.TakeEnded()) ended[process.name] = process;
    return !job.HasRunning();
  };
  WaitFor(all_end);
  EXPECT_THAT(ended["worker-0"].last_lines, ::testing::ElementsAre("one", "3 0 5 127.0.0.1:7"));
  EXPECT_EQ(ended["worker-1"].ToString(), "worker-1 ended (exit code 4): 4 1 5 127.0.0.1:7");
  EXPECT_TRUE(ended["worker-1"].is_program);
  EXPECT_FALSE(ended["server-1"].is_program);
  const LocalJob::Ended lost = ended["worker-1"];
  ASSERT_TRUE(job.Replace(lost, "127.0.0.1:8").ok());
  EXPECT_EQ(job.RunningWorker(4), "worker-1");
  EXPECT_EQ(job.RunningWorker(3), std::nullopt);
  WaitFor(all_end);
  EXPECT_EQ(ended["worker-1"].last_line, "4 1 5 127.0.0.1:8");
}

TEST(LocalJobTest, ServersAreStartedBeforeWorkersOneByOne) {
  const FakePrograms programs("one_by_one");
  programs.Write("capstan_server", FakePrograms::kRunForever);
  programs.Write("capstan_worker", FakePrograms::kRunForever);
  LocalJob job(OptionsFor(programs));
  ASSERT_TRUE(job.StartNextMember("127.0.0.1:7").ok());
  ASSERT_TRUE(job.StartNextMember("127.0.0.1:7").ok());
  EXPECT_EQ(job.servers_started(), 2);
  EXPECT_FALSE(job.HasStartedAllMembers());
  EXPECT_FALSE(job.HasRunning(LocalJob::Role::kWorker));
  ASSERT_TRUE(job.StartNextMember("127.0.0.1:7").ok());
  EXPECT_TRUE(job.HasStartedAllMembers());
  EXPECT_TRUE(job.HasRunning(LocalJob::Role::kWorker));
}

TEST(LocalJobTest, OneWorkerIsKilledAlsoIfItIsStopped) {
  const FakePrograms programs("kill_worker");
  programs.Write("capstan_server", FakePrograms::kRunForever);
  programs.Write("capstan_worker", "kill -STOP $$");
  LocalJob::Options options = OptionsFor(programs);
  options.num_workers = 2;
  LocalJob job(options);
  StartMembers(&job);
  job.KillWorker(1);
  job.KillWorker(2);
  std::vector<LocalJob::Ended> ended;
  WaitFor([&] { return !(ended = job.TakeEnded()).empty(); });
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_THAT(ended[0].ToString(), HasSubstr("worker-1 ended (killed by signal 9)"));
  EXPECT_EQ(job.RunningWorker(0), "worker-0");
  EXPECT_EQ(job.RunningWorker(1), std::nullopt);
}

// A server's script: the first two register and run on, the third one has not registered so far.
void WriteServers(const FakePrograms& programs) {
  programs.Write("capstan_server",
                 "echo $@ >>" + programs.Path("starts") + "\nn=$(wc -l <" +
                     programs.Path("starts") +
                     ")\n[ $n = 3 ] || echo \"I20260101 00:00:00 1 f.cc:1] registered as server "
                     "$n at host:$n\"\nexec sleep 1000");
}

TEST(LocalJobTest, AServerIsKnownByTheAddressWithWhichItHasRegistered) {
  const FakePrograms programs("server_address");
  WriteServers(programs);
  LocalJob job(OptionsFor(programs));
  ASSERT_TRUE(job.StartNextMember("127.0.0.1:7").ok());
  WaitFor([&job] { return job.RunningServer("host:1").has_value(); });
  EXPECT_EQ(*job.RunningServer("host:1"), "server-0");
  EXPECT_FALSE(job.RunningServer("host:2").has_value());
  EXPECT_FALSE(job.RunningServer("").has_value());
  job.KillServer("host:2");
  job.KillServer("host:1");
  std::vector<LocalJob::Ended> ended;
  WaitFor([&] { return !(ended = job.TakeEnded()).empty(); });
  EXPECT_EQ(ended[0].address, "host:1");
  EXPECT_EQ(ended[0].exit.signal, SIGKILL);
}

TEST(LocalJobTest, AtTheEndServersAreKilledThatAreLostToTheJobOrHaveNotComeInAnothersPlace) {
  const FakePrograms programs("servers_outside");
  WriteServers(programs);
  LocalJob::Options options = OptionsFor(programs);
  options.num_servers = 3;
  LocalJob job(options);
  v1::JobView view;
  for (const std::string address : {"host:1", "host:2"}) {
    ASSERT_TRUE(job.StartNextMember("127.0.0.1:7").ok());
    WaitFor([&] { return job.RunningServer(address).has_value(); });
    v1::ServerInfo& server = *view.add_servers();
    server.set_address(address);
    server.set_is_live(address == "host:1");
  }
  ASSERT_TRUE(job.StartNextMember("127.0.0.1:7").ok());
  std::vector<LocalJob::Ended> ended;
  job.KillServersOutside(view);
  WaitFor([&] { return !(ended = job.TakeEnded()).empty(); });
  ASSERT_EQ(ended.size(), 1u) << "who has just started finds out by itself that the job has ended";
  EXPECT_EQ(ended[0].name, "server-1");

  fs::remove(programs.Path("starts"));
  std::ofstream(programs.Path("starts")) << "1\n2\n";
  ASSERT_TRUE(job.Replace(ended[0], "127.0.0.1:8").ok());
  job.KillServersOutside(view);
  WaitFor([&] { return !(ended = job.TakeEnded()).empty(); });
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].name, "server-1");
  EXPECT_EQ(ended[0].address, "");
  EXPECT_TRUE(job.RunningServer("host:1").has_value());
}

TEST(LocalJobTest, SignalReachesTheCoordinatorOnly) {
  const FakePrograms programs("signal");
  programs.Write("capstan_coordinator", FakePrograms::kRunForever);
  programs.Write("capstan_server", FakePrograms::kRunForever);
  LocalJob job(OptionsFor(programs));
  ASSERT_TRUE(job.StartCoordinator().ok());
  ASSERT_TRUE(job.StartNextMember("127.0.0.1:7").ok());
  job.SignalCoordinator(SIGTERM);
  std::vector<LocalJob::Ended> ended;
  WaitFor([&] { return !(ended = job.TakeEnded()).empty(); });
  EXPECT_EQ(ended[0].exit.signal, SIGTERM);
  EXPECT_TRUE(job.HasRunning(LocalJob::Role::kServer));
  job.SignalCoordinator(SIGTERM);
  EXPECT_TRUE(job.TakeEnded().empty());
}

TEST(LocalJobTest, AnotherWorkerHasTheNameTheDeviceAndTheLogOfTheLostOne) {
  const FakePrograms programs("replaced");
  programs.Write("capstan_server", "exit 0");
  programs.Write("capstan_worker", "echo $@; exit 3");
  LocalJob::Options options = OptionsFor(programs);
  options.num_workers = 2;
  options.devices = {"cuda:0", "cuda:1"};
  LocalJob job(options);
  StartMembers(&job);
  std::map<std::string, LocalJob::Ended> ended;
  const auto all_end = [&] {
    for (const LocalJob::Ended& process : job.TakeEnded()) ended[process.name] = process;
    return !job.HasRunning();
  };
  WaitFor(all_end);
  const LocalJob::Ended lost = ended["worker-1"];
  ended.clear();
  ASSERT_TRUE(job.Replace(lost, "127.0.0.1:8").ok());
  WaitFor(all_end);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_THAT(ended["worker-1"].last_line,
              AllOf(HasSubstr("--coordinator=127.0.0.1:8"), HasSubstr("--device=cuda:1"),
                    HasSubstr("--rank=1")));
  EXPECT_THAT(lost.last_line, Not(HasSubstr("--rank")));
  std::ifstream log(options.run_dir + "/worker-1.log");
  std::string first, second;
  std::getline(log, first);
  std::getline(log, second);
  EXPECT_EQ(first, lost.last_line);
  EXPECT_EQ(second, "---- capstan run starts worker-1 again ----");
}

TEST(LocalJobTest, AResetJobHasNoProcessesAndNoAddressUntilItListensAtTheSameAgain) {
  const FakePrograms programs("reset");
  programs.Write("capstan_coordinator", "echo \"$@\"\n" + std::string(FakePrograms::kListen) +
                                            "\necho of the first life > $summary\n" +
                                            FakePrograms::kRunForever);
  programs.Write("capstan_server", FakePrograms::kRunForever);
  programs.Write("capstan_worker", FakePrograms::kRunForever);
  LocalJob job(OptionsFor(programs));
  ASSERT_TRUE(job.StartCoordinator().ok());
  StartMembers(&job);
  WaitFor([&job] { return fs::exists(job.summary_path()); });
  job.Reset();
  EXPECT_FALSE(job.HasRunning());
  EXPECT_FALSE(job.HasStartedAllMembers());
  EXPECT_FALSE(job.CoordinatorAddress().has_value());

  // The second coordinator cannot listen there.
  programs.Write("capstan_coordinator", "echo \"$@\"; ls $summary; exit 1");
  const auto live = [&job] {
    ASSERT_TRUE(job.StartCoordinator().ok());
    WaitFor([&job] { return !job.TakeEnded().empty(); });
    job.Reset();
  };
  live();
  live();
  EXPECT_FALSE(fs::exists(job.summary_path())) << "it is of the first life";
  EXPECT_THAT(Listens(job), ElementsAre("127.0.0.1:0", "127.0.0.1:1", "127.0.0.1:0"));
}

TEST(LocalJobTest, ProgramThatCannotStartIsNamed) {
  const FakePrograms programs("cannot_start");
  LocalJob job(OptionsFor(programs));
  EXPECT_THAT(std::string(job.StartCoordinator().message()), HasSubstr("capstan_coordinator"));
}

fs::path EmptyFolder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string MakeProgram(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

TEST(ProgramPathTest, OwnPathIsThatOfThisTest) {
  EXPECT_THAT(OwnProgramPath().value_or(""),
              EndsWith(absl::StrCat("/", program_invocation_short_name)));
}

TEST(ProgramPathTest, ProgramInTheSameFolderIsFoundFirst) {
  const fs::path root = EmptyFolder("same");
  MakeProgram(root / "deploy/cli/capstan.runfiles/capstan/server/capstan_server");
  const std::string expected = MakeProgram(root / "deploy/cli/capstan_server");
  EXPECT_EQ(FindProgram(root / "deploy/cli/capstan", "server/capstan_server").value_or(""),
            expected);
}

TEST(ProgramPathTest, ProgramInRunfilesIsFound) {
  const fs::path root = EmptyFolder("runfiles");
  const std::string expected =
      MakeProgram(root / "deploy/cli/capstan.runfiles/capstan/server/capstan_server");
  EXPECT_EQ(FindProgram(root / "deploy/cli/capstan", "server/capstan_server").value_or(""),
            expected);
}

TEST(ProgramPathTest, ProgramInBazelsOutputTreeIsFound) {
  const fs::path root = EmptyFolder("outputs");
  const std::string expected = MakeProgram(root / "server/capstan_server");
  EXPECT_EQ(FindProgram(root / "deploy/cli/capstan", "server/capstan_server").value_or(""),
            expected);
}

TEST(ProgramPathTest, MissingProgramIsNamedWithThePlaces) {
  const fs::path root = EmptyFolder("missing");
  const auto path = FindProgram(root / "deploy/cli/capstan", "server/capstan_server");
  EXPECT_EQ(path.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(path.status().message()),
              AllOf(HasSubstr("server/capstan_server"), HasSubstr("capstan.runfiles")));
}

}  // namespace
}  // namespace capstan
