// A job of real processes whose coordinator keeps its state on a disk that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/real_clock.h"
#include "deploy/cli/grpc_status_client.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

// Whoever still waits then waits for ever.
constexpr absl::Duration kPatience = absl::Seconds(120);

class JobDiskTest : public testing::Test {
 protected:
  JobDiskTest() {
    std::string folder = fs::canonical(testing::TempDir()).string() + "/job-disk-XXXXXX";
    root_ = mkdtemp(folder.data());
    job_ = std::make_unique<JobProcesses>(root_);
  }

  static std::vector<std::string> Flags(double compute_seconds,
                                        std::vector<std::string> flags = {}) {
    flags.insert(flags.end(),
                 {"--model=updates", "--num_workers=2", "--num_servers=2", "--replicas=2",
                  "--steps=300", "--lease_seconds=2", "--heartbeat_seconds=0.2",
                  absl::StrCat("--field=model.updates.compute_seconds=", compute_seconds)});
    return flags;
  }
  // Those of a coordinator that keeps its state.
  std::vector<std::string> KeepingFlags() const {
    return Flags(0.02, {"--state=" + root_ + "/state"});
  }
  // A coordinator on a disk with this fault while it is turned on. All members train, and all
  // shards have two copies.
  void StartJob(const char* fault) {
    setenv("FAULTY_DISK_DIR", (root_ + "/state").c_str(), 1);
    setenv("FAULTY_DISK_FAULT", fault, 1);
    setenv("FAULTY_DISK_SWITCH", Switch().c_str(), 1);
    setenv("LD_PRELOAD", "tests/disk_faults/libfaulty_disk.so", 1);
    job_->StartCoordinator(KeepingFlags());
    for (const char* name :
         {"FAULTY_DISK_DIR", "FAULTY_DISK_FAULT", "FAULTY_DISK_SWITCH", "LD_PRELOAD"}) {
      unsetenv(name);
    }
    if (HasFatalFailure()) return;
    job_->StartMembers(/*num_servers=*/2, /*num_workers=*/2);
    client_ = std::make_unique<GrpcStatusClient>(job_->coordinator_address(), &clock_);
    ASSERT_TRUE(job_->WaitForLog("coordinator", "have two equal copies", kPatience));
  }
  std::string Switch() const { return root_ + "/switch"; }
  void TurnOn() { std::ofstream(Switch()) << "on"; }
  void TurnOff() { fs::remove(Switch()); }

  // A change that the coordinator cannot keep.
  void LoseServer() {
    job_->Signal("server-1", SIGKILL);
    ASSERT_TRUE(
        job_->WaitForLog("coordinator", "the state of the job could not be kept: ", kPatience));
  }
  void StartAnotherServer() {
    job_->Start("server-2", "server/capstan_server",
                {"--coordinator=" + job_->coordinator_address()});
  }
  // Asks for the status. What it says of the job's progress never falls.
  void Look() {
    const absl::StatusOr<v1::GetStatusReply> status = client_->GetStatus();
    if (!status.ok()) return;
    EXPECT_GE(status->term(), latest_.term());
    EXPECT_GE(status->view().version(), latest_.view().version());
    EXPECT_GE(status->view().epoch(), latest_.view().epoch());
    latest_ = *status;
  }
  void LookFor(absl::Duration time) {
    const absl::Time end = clock_.Now() + time;
    while (clock_.Now() < end) {
      Look();
      job_->WaitUntil(absl::Milliseconds(50), [] { return false; });
    }
  }
  void ExpectTheBitsOfAnUndisturbedJob() {
    const ChildExit exit = job_->WaitForExit("coordinator", kPatience);
    EXPECT_TRUE(exit.ok()) << exit.ToString() << job_->Log("coordinator");
    const auto summary = nlohmann::json::parse(ReadFile(job_->path("summary.json")), nullptr,
                                               /*allow_exceptions=*/false);
    ASSERT_TRUE(summary.contains("parameters_xxh3")) << job_->Log("coordinator");
    EXPECT_EQ(summary["servers_replaced"], 1);
    fs::create_directory(root_ + "/undisturbed");
    JobProcesses other(root_ + "/undisturbed");
    ASSERT_NO_FATAL_FAILURE(other.StartCoordinator(Flags(0.0001)));
    ASSERT_NO_FATAL_FAILURE(other.StartMembers(/*num_servers=*/2, /*num_workers=*/2));
    EXPECT_TRUE(other.WaitForExit("coordinator", kPatience).ok()) << other.Log("coordinator");
    const auto undisturbed = nlohmann::json::parse(ReadFile(other.path("summary.json")), nullptr,
                                                   /*allow_exceptions=*/false);
    EXPECT_EQ(summary["parameters_xxh3"], undisturbed["parameters_xxh3"]);
  }

  RealClock clock_;
  std::string root_;
  std::unique_ptr<JobProcesses> job_;
  std::unique_ptr<GrpcStatusClient> client_;
  v1::GetStatusReply latest_;
};

TEST_F(JobDiskTest, AJobOutlastsADiskThatIsFullForAWhile) {
  ASSERT_NO_FATAL_FAILURE(StartJob("full"));
  Look();
  TurnOn();
  ASSERT_NO_FATAL_FAILURE(LoseServer());
  StartAnotherServer();
  const uint64_t version = latest_.view().version();
  LookFor(absl::Seconds(2));
  EXPECT_EQ(latest_.view().version(), version) << "nobody hears of a change that is not kept";
  EXPECT_THAT(job_->Log("coordinator"), testing::HasSubstr("No space left on device"));
  TurnOff();
  ASSERT_TRUE(job_->WaitForLog("coordinator", "the state of the job is kept again", kPatience));
  Look();
  EXPECT_GT(latest_.view().version(), version);
  ExpectTheBitsOfAnUndisturbedJob();
}

TEST_F(JobDiskTest, AnotherCoordinatorGoesOnAfterADiskThatFailsForGood) {
  ASSERT_NO_FATAL_FAILURE(StartJob("fsync"));
  Look();
  EXPECT_EQ(latest_.term(), 1u);
  TurnOn();
  ASSERT_NO_FATAL_FAILURE(LoseServer());
  Look();
  ASSERT_NO_FATAL_FAILURE(job_->ReplaceCoordinator(KeepingFlags()));
  ASSERT_TRUE(job_->WaitUntil(kPatience, [&] {
    Look();
    return latest_.servers_lost() == 1;
  })) << job_->Log("coordinator");
  StartAnotherServer();
  EXPECT_EQ(latest_.term(), 2u);
  ExpectTheBitsOfAnUndisturbedJob();
}

}  // namespace
}  // namespace capstan
