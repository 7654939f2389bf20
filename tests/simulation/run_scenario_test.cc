#include "tests/simulation/run_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace capstan {
namespace {

using testing::HasSubstr;

// A job of 2 workers and 2 servers.
Scenario MakeScenario() {
  Scenario scenario;
  scenario.job.mutable_cluster()->set_num_workers(2);
  scenario.job.mutable_cluster()->set_num_servers(2);
  scenario.job.mutable_membership()->set_lease_seconds(0.5);
  scenario.job.mutable_membership()->set_heartbeat_seconds(0.1);
  return scenario;
}

void AddFault(Scenario& scenario, Fault::Kind kind, uint32_t process,
              absl::Duration pause = absl::ZeroDuration()) {
  Fault& fault = scenario.faults.emplace_back();
  fault.kind = kind;
  fault.process = process;
  fault.pause = pause;
}

std::string BadEndFor(const Scenario& scenario, const std::string& reason) {
  SimulationResult result;
  result.outcome.emplace().status = absl::AbortedError(reason);
  return BadEnd(scenario, result);
}

constexpr char kServer1[] = "server 0 (simulated:2) has been silent for 0.5 s (lease); lost";
constexpr char kLastWorker[] =
    "worker 1 has been silent for 0.5 s (lease) and was the last live worker: see";
constexpr char kEarlyWorker[] =
    "worker 1 has been silent for 0.5 s (lease) before training began: see";

TEST(BadEndTest, AnEndWithoutFaultIsGood) {
  SimulationResult result;
  result.outcome.emplace();
  EXPECT_EQ(BadEnd(MakeScenario(), result), "");
}

TEST(BadEndTest, AHangAndAnyOtherFailureAreBad) {
  Scenario scenario = MakeScenario();
  AddFault(scenario, Fault::Kind::kKillServer, 1);
  EXPECT_EQ(BadEnd(scenario, SimulationResult()), "the job has hung");
  EXPECT_EQ(BadEndFor(scenario, "worker 0: push of step 3"),
            "the job has failed: worker 0: push of step 3");
}

TEST(BadEndTest, AJobMayWaitForAMemberThatDiedBeforeItRegistered) {
  SimulationResult result;
  result.is_registering = true;
  Scenario scenario = MakeScenario();
  EXPECT_EQ(BadEnd(scenario, result), "the job has hung");
  AddFault(scenario, Fault::Kind::kKillWorker, 1);
  EXPECT_EQ(BadEnd(scenario, result), "");
  scenario.faults[0].replaced_after = absl::Milliseconds(10);
  EXPECT_EQ(BadEnd(scenario, result), "the job has hung");
}

TEST(BadEndTest, SilenceWithoutAFaultIsBad) {
  for (const char* const reason : {kServer1, kLastWorker, kEarlyWorker}) {
    EXPECT_THAT(BadEndFor(MakeScenario(), reason), HasSubstr("the job has failed: "));
  }
}

TEST(BadEndTest, ANetworkThatDropsMessagesMaySilenceAnybody) {
  Scenario scenario = MakeScenario();
  scenario.network.drop = 0.01;
  EXPECT_EQ(BadEndFor(scenario, kServer1), "");
  EXPECT_NE(BadEndFor(scenario, "worker 0: push of step 3"), "");
}

TEST(BadEndTest, AServerMayBeLostWhoseOwnFaultsSilenceIt) {
  Scenario other = MakeScenario();
  AddFault(other, Fault::Kind::kKillServer, 0);
  AddFault(other, Fault::Kind::kKillWorker, 1);
  EXPECT_NE(BadEndFor(other, kServer1), "") << "another process died";
  Scenario killed = MakeScenario();
  AddFault(killed, Fault::Kind::kKillServer, 1);
  EXPECT_EQ(BadEndFor(killed, kServer1), "");
  Scenario paused = MakeScenario();
  AddFault(paused, Fault::Kind::kPauseServer, 1, absl::Milliseconds(250));
  EXPECT_NE(BadEndFor(paused, kServer1), "") << "shorter than its lease";
  AddFault(paused, Fault::Kind::kPauseCoordinator, 0, absl::Milliseconds(250));
  EXPECT_EQ(BadEndFor(paused, kServer1), "") << "as long as its lease, with the coordinator's";
}

TEST(BadEndTest, TheLastWorkerMayBeLostWhenAllCanBe) {
  Scenario scenario = MakeScenario();
  AddFault(scenario, Fault::Kind::kKillWorker, 0);
  EXPECT_NE(BadEndFor(scenario, kLastWorker), "");
  AddFault(scenario, Fault::Kind::kPauseWorker, 1, absl::Milliseconds(600));
  EXPECT_EQ(BadEndFor(scenario, kLastWorker), "");
}

TEST(BadEndTest, AWorkerIsSilentWhoseRegistrationIsLost) {
  Scenario scenario = MakeScenario();
  AddFault(scenario, Fault::Kind::kKillWorker, 0);
  scenario.lost_registration.emplace().process = 0;
  EXPECT_NE(BadEndFor(scenario, kLastWorker), "") << "worker 1 suffers nothing";
  scenario.lost_registration->process = 1;
  EXPECT_EQ(BadEndFor(scenario, kLastWorker), "");
}

TEST(BadEndTest, AWorkerLeavesOnlyIfItIsAskedTo) {
  constexpr char kLeft[] = "worker 1 was asked to end, and has left before training began: see";
  Scenario scenario = MakeScenario();
  AddFault(scenario, Fault::Kind::kPauseServer, 0, absl::Milliseconds(250));
  EXPECT_NE(BadEndFor(scenario, kLeft), "");
  AddFault(scenario, Fault::Kind::kAskWorkerToEnd, 0);
  EXPECT_EQ(BadEndFor(scenario, kLeft), "");
}

TEST(BadEndTest, OneSilentWorkerEndsAJobBeforeItsTraining) {
  Scenario scenario = MakeScenario();
  AddFault(scenario, Fault::Kind::kKillServer, 0);
  EXPECT_NE(BadEndFor(scenario, kEarlyWorker), "");
  AddFault(scenario, Fault::Kind::kKillWorker, 0);
  EXPECT_EQ(BadEndFor(scenario, kEarlyWorker), "");
}

TEST(BadEndTest, AProgramMayLoseWorker0BeforeItsInitialValues) {
  constexpr char kInitial[] =
      "worker 1: worker 0 was lost before it had sent the initial values of slice 0 of table w";
  Scenario scenario = MakeScenario();
  AddFault(scenario, Fault::Kind::kKillWorker, 0);
  EXPECT_NE(BadEndFor(scenario, kInitial), "") << "the values are not its";
  scenario.program.emplace();
  EXPECT_EQ(BadEndFor(scenario, kInitial), "");
  scenario.faults.clear();
  EXPECT_NE(BadEndFor(scenario, kInitial), "") << "nobody can be lost";
  scenario.program->worker_0_lives = absl::Seconds(1);
  EXPECT_EQ(BadEndFor(scenario, kInitial), "");
}

}  // namespace
}  // namespace capstan
