// Jobs of scripts that start again after a failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "deploy/launch/fake_job_run.h"
#include "server/checkpoint/example_checkpoint.h"

namespace capstan {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDie[] = "kill -9 $$";
// For a coordinator: nobody is started in the second life.
constexpr char kSecondLifeEnds[] = "[ $life = 2 ] && exit 0";

class RestartTest : public ::testing::Test {
 protected:
  RestartTest() : run_(::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    run_.answer = [this] { return Status(); };
    Server("exec sleep 1000");
    Worker("exec sleep 1000");
    MakePlan(RestartPlan::kNoLimit);
  }

  void MakePlan(int most) { MakePlan({Path("checkpoints"), most}); }
  void MakePlan(const RestartPlan::Options& options) {
    auto plan = RestartPlan::Create(options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
    run_.restarts = &*plan_;
  }
  std::string Path(const std::string& file) const { return run_.programs().Path(file); }
  std::string Checkpoint(int64_t step) { return WriteExampleCheckpoint(Path("checkpoints"), step); }

  // Scripts for each life: "$life" is its number, from 1. The coordinator listens after `before`.
  void Coordinator(const std::string& script, const std::string& before = "") {
    run_.programs().Write("capstan_coordinator", "echo \"$@\" >> " + Path("lives") + "\n" +
                                                     LifeNumber() + before + "\n" +
                                                     FakePrograms::kListen + "\n" + script);
  }
  void Server(const std::string& script) { Member("capstan_server", script); }
  void Worker(const std::string& script) { Member("capstan_worker", script); }

  // The coordinator's arguments in each life.
  std::vector<std::string> Lives() const { return Lines("lives"); }
  std::vector<std::string> Lines(const std::string& file) const {
    std::vector<std::string> lines;
    std::ifstream in(Path(file));
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  // All members are live.
  v1::GetStatusReply Status() {
    v1::GetStatusReply status;
    v1::JobView& view = *status.mutable_view();
    view.set_phase(phase_ ? phase_(static_cast<int>(Lives().size())) : v1::TRAINING);
    view.set_reason(reason_);
    view.add_servers()->set_is_live(true);
    for (int i = 0; i < 2; ++i) {
      v1::WorkerInfo& worker = *view.add_workers();
      worker.set_worker(i);
      worker.set_is_live(i != silent_worker_ || Lives().size() > 1);
      worker.set_holds_place(holds_places_ && !worker.is_live());
      worker.set_incarnation(i);
      status.add_progress();
    }
    view.set_holds_places(holds_places_);
    view.set_place_refusal(place_refusal_);
    view.add_consistency()->mutable_consistency()->set_mode(mode_);
    return status;
  }

  FakeJobRun run_;
  std::optional<RestartPlan> plan_;
  std::function<v1::Phase(int life)> phase_;  // TRAINING if there is none
  std::string reason_;
  int silent_worker_ = -1;  // in the first life
  bool holds_places_ = false;
  std::string place_refusal_;
  v1::ConsistencySpec::Mode mode_ = v1::ConsistencySpec::BSP;

 private:
  std::string LifeNumber() const { return "life=$(wc -l < " + Path("lives") + ")\n"; }
  void Member(const std::string& program, const std::string& script) {
    run_.programs().Write(program, "echo $$ >> " + Path("members") + "\n" + LifeNumber() + script);
  }
};

// The coordinator tells the other machines why the job fails.
TEST_F(RestartTest, OnSeveralMachinesWorkersAreReplacedAndNothingStartsAgain) {
  RestartPlan::Options options;
  options.only_replaces = true;
  MakePlan(options);
  run_.has_all_members = false;
  holds_places_ = true;
  Coordinator("trap 'exit 1' TERM; while :; do sleep 0.01; done");
  Worker("[ $(wc -l < " + Path("members") + ") -ge 4 ] && exec sleep 1000; kill -KILL $$");
  bool has_replaced = false;
  phase_ = [&](int) {
    has_replaced = has_replaced || absl::StrContains(run_.out.str(), "; another takes its place");
    return has_replaced ? v1::FAILED : v1::TRAINING;
  };
  reason_ = "server 1 has been silent";
  run_.late_timeout = absl::ZeroDuration();
  const absl::Status result = run_.Result();
  EXPECT_TRUE(has_replaced) << run_.out.str();
  EXPECT_THAT(std::string(result.message()), HasSubstr("coordinator ended (exit code 1)"));
  EXPECT_THAT(Lives(), ElementsAre(_)) << "the coordinator has started once";
}

TEST_F(RestartTest, ALostServerStartsAllAgainFromTheNewestCheckpoint) {
  Checkpoint(100);
  const std::string newest = Checkpoint(150);
  Coordinator("exec sleep 1000", kSecondLifeEnds);
  Server(kDie);
  mode_ = v1::ConsistencySpec::SSP;
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(Lives(), ElementsAre(Not(HasSubstr("--restore")), EndsWith("--restore=" + newest)));
  EXPECT_THAT(run_.out.str(),
              AllOf(HasSubstr("server-0 ended (killed by signal 9): no error in its log; with "),
                    HasSubstr("; restart 1 from step 150 (checkpoint-000002)\n")));
  EXPECT_EQ(plan_->CountsText(), "restarted 1 time");
}

TEST_F(RestartTest, ALostCoordinatorIsStartedWhenAllOthersHaveEnded) {
  Coordinator("until [ $(wc -l < " + Path("members") + ") = 3 ]; do sleep 0.01; done; " + kDie,
              /*before=*/"touch " + Path("members") + "; for pid in $(cat " + Path("members") +
                  "); do kill -0 $pid && touch " + Path("alive") + "; done; " + kSecondLifeEnds);
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Lives().size(), 2);
  EXPECT_EQ(Lines("members").size(), 3);
  EXPECT_FALSE(std::filesystem::exists(Path("alive")));
}

TEST_F(RestartTest, MembersThatEndAfterALostCoordinatorAreNoFailureOfTheirOwn) {
  run_.end_timeout = absl::Seconds(20);
  run_.answer = [this]() -> absl::StatusOr<v1::GetStatusReply> {
    if (Lives().size() == 1 && std::filesystem::exists(Path("gone"))) {
      return absl::UnavailableError("nobody answers");
    }
    return Status();
  };
  Worker("echo $$ >> " + Path("workers") + "; until [ $(wc -l < " + Path("workers") +
         ") = 2 ]; do sleep 0.01; done; touch " + Path("gone") +
         "; echo the coordinator is unreachable; exit 1");
  Coordinator(WaitForFile(run_.programs(), "gone") + "for pid in $(cat " + Path("workers") +
                  "); do while kill -0 $pid; do sleep 0.01; done; done; " + kDie,
              kSecondLifeEnds);
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), AllOf(HasSubstr("coordinator ended (killed by signal 9)"),
                                    Not(HasSubstr("worker-0 ended"))));
  EXPECT_EQ(plan_->CountsText(), "restarted 1 time");
}

TEST_F(RestartTest, WithoutACheckpointTheJobStartsAsItFirstDid) {
  // The coordinator dies only after the runner has seen that the job trains.
  phase_ = [this](int) {
    std::ofstream(Path("asked")) << "yes";
    return v1::TRAINING;
  };
  Coordinator(WaitForFile(run_.programs(), "asked") + kDie, kSecondLifeEnds);
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  // It listens where the first one did.
  ASSERT_EQ(Lives().size(), 2);
  EXPECT_EQ(absl::StrReplaceAll(Lives()[0], {{"127.0.0.1:0", "127.0.0.1:1"}}), Lives()[1]);
  EXPECT_THAT(run_.out.str(), HasSubstr("restart 1 as it first began: this run has no checkpoint"));
}

TEST_F(RestartTest, UnderBspALostWorkerStartsAllAgainAtOnce) {
  Coordinator("exec sleep 1000", kSecondLifeEnds);
  Worker(kDie);
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), HasSubstr("; restart 1 "));
  EXPECT_EQ(plan_->CountsText(), "restarted 1 time");
}

TEST_F(RestartTest, ARestartSaysWhyNoOtherProcessCouldTakeALostWorkersPlace) {
  place_refusal_ = "its residuals are gone";
  Coordinator("exec sleep 1000", kSecondLifeEnds);
  Worker(kDie);
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), HasSubstr("no error in its log; no other process could do its step "
                                        "again: its residuals are gone; "));
  EXPECT_THAT(run_.out.str(), HasSubstr("; restart 1 "));
}

TEST_F(RestartTest, UnderBspAWorkerWhosePlaceIsHeldAloneIsReplaced) {
  MakePlan(RestartPlan::Options{/*checkpoint_dir=*/""});
  holds_places_ = true;
  Coordinator("until [ $(wc -l < " + Path("members") + ") = 4 ]; do sleep 0.01; done; exit 0");
  Worker(WaitForFile(run_.programs(), "run/worker-1.log") + "mkdir " + Path("lost") +
         " 2>/dev/null && " + kDie + "\nexec sleep 1000");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Lives().size(), 1);
  EXPECT_THAT(run_.out.str(), HasSubstr("no error in its log; another takes its place\n"));
  EXPECT_EQ(plan_->CountsText(), "1 worker replaced");
}

TEST_F(RestartTest, WithoutAPlanTheCommandSaysThatAPlaceIsHeld) {
  run_.restarts = nullptr;
  holds_places_ = true;
  Coordinator(WaitForFile(run_.programs(), "reported") + "exit 0");
  Worker(WaitForFile(run_.programs(), "run/worker-1.log") + "mkdir " + Path("lost") +
         " 2>/dev/null && " + kDie + "\nexec sleep 1000");
  phase_ = [this](int) {
    if (absl::StrContains(run_.out.str(), "; its place is held (--replace_seconds)\n")) {
      std::ofstream(Path("reported")) << "yes";
    }
    return v1::TRAINING;
  };
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
}

TEST_F(RestartTest, IfPlacesAreHeldTheLastWorkerIsReplacedToo) {
  MakePlan(RestartPlan::Options{/*checkpoint_dir=*/""});
  holds_places_ = true;
  Coordinator("until [ $(wc -l < " + Path("members") + ") = 5 ]; do sleep 0.01; done; exit 0");
  // Both of the first two die.
  Worker(WaitForFile(run_.programs(), "run/worker-1.log") + "mkdir " + Path("lost-1") +
         " 2>/dev/null && " + kDie + "\nmkdir " + Path("lost-2") + " 2>/dev/null && " + kDie +
         "\nexec sleep 1000");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Lives().size(), 1);
  EXPECT_THAT(run_.out.str(), Not(HasSubstr("it was the last one")));
  EXPECT_EQ(plan_->CountsText(), "2 workers replaced");
}

TEST_F(RestartTest, WithoutCheckpointsALostServerIsTheEnd) {
  MakePlan(RestartPlan::Options{/*checkpoint_dir=*/""});
  holds_places_ = true;
  Coordinator("exec sleep 1000");
  Server("until [ -s " + Path("asked") + " ]; do sleep 0.01; done; " + kDie);
  phase_ = [this](int) {
    std::ofstream(Path("asked")) << "yes";
    return v1::TRAINING;
  };
  EXPECT_EQ(std::string(run_.Result().message()),
            "server-0 ended (killed by signal 9): no error in its log; with two servers and "
            "--replicas=2 the job would have gone on; no restart: the job has no checkpoints "
            "(--checkpoint_dir)");
  EXPECT_EQ(Lives().size(), 1);
}

TEST_F(RestartTest, WorkersThatDieAgainAndAgainAreTheEndOfAJobWithoutCheckpoints) {
  MakePlan(RestartPlan::Options{/*checkpoint_dir=*/""});
  holds_places_ = true;
  Coordinator("exec sleep 1000");
  Worker("echo no memory; " + std::string(kDie));
  EXPECT_THAT(std::string(run_.Result().message()),
              HasSubstr("no memory; 10 workers replaced; no restart: 10 workers were lost in a row "
                        "without a further step: the reason seems to last"));
  // The last one may not have written its line.
  EXPECT_GE(Lines("members").size(), 12);
}

TEST_F(RestartTest, UnderSspALostWorkerAloneIsReplaced) {
  mode_ = v1::ConsistencySpec::SSP;
  Coordinator("until [ $(wc -l < " + Path("members") + ") = 4 ]; do sleep 0.01; done; exit 0");
  Worker(WaitForFile(run_.programs(), "run/worker-1.log") + "mkdir " + Path("lost") +
         " 2>/dev/null && echo no memory && " + kDie + "\nexec sleep 1000");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Lives().size(), 1);
  EXPECT_THAT(run_.out.str(),
              HasSubstr("ended (killed by signal 9): no memory; another takes its place\n"));
  EXPECT_EQ(plan_->CountsText(), "1 worker replaced");
  EXPECT_THAT(run_.Log("worker-0") + run_.Log("worker-1"),
              HasSubstr("no memory\n---- capstan run starts worker-"));
}

TEST_F(RestartTest, UnderSspTheOthersGoOnWhenNoneMayBeReplacedAnyMore) {
  mode_ = v1::ConsistencySpec::SSP;
  MakePlan(/*most=*/1);
  // Three workers die, the third one in the place of another. One is left.
  Coordinator("until [ $(ls " + Path("") + " | grep -c ^lost) = 2 ]; do sleep 0.01; done; " +
              WaitForFile(run_.programs(), "reported") + "exit 0");
  Worker(WaitForFile(run_.programs(), "run/worker-1.log") + "mkdir " + Path("lost-1") +
         " 2>/dev/null && " + kDie + "\nuntil grep -q again " + Path("run") +
         "/worker-*.log; do sleep 0.01; done\nmkdir " + Path("lost-2") + " 2>/dev/null && " + kDie +
         "\nexec sleep 1000");
  phase_ = [this](int) {
    if (absl::StrContains(run_.out.str(), "; the others go on")) {
      std::ofstream(Path("reported")) << "yes";
    }
    return v1::TRAINING;
  };
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Lives().size(), 1);
  EXPECT_EQ(plan_->CountsText(), "1 worker replaced");
}

TEST_F(RestartTest, UnderSspTheLossOfTheLastWorkerStartsAllAgain) {
  mode_ = v1::ConsistencySpec::SSP;
  phase_ = [](int) { return v1::EVALUATING; };
  Coordinator("exec sleep 1000", kSecondLifeEnds);
  Worker(kDie);
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), HasSubstr("; it was the last one; restart 1 "));
}

TEST_F(RestartTest, AJobThatTheCoordinatorDeclaredFailedStartsAgain) {
  phase_ = [this, asked = 0](int life) mutable {
    reason_ = "server 1 has been silent";
    return life == 1 && ++asked > 1 ? v1::FAILED : v1::TRAINING;
  };
  Coordinator("trap '' TERM; while true; do sleep 1000; done", kSecondLifeEnds);
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), HasSubstr("the job failed: server 1 has been silent; restart 1 "));
}

TEST_F(RestartTest, ASilentWorkerWhosePlaceIsHeldIsKilledOnceAndReplaced) {
  holds_places_ = true;
  phase_ = [this](int) {
    if (Lines("members").size() == 3) silent_worker_ = 1;
    return v1::TRAINING;
  };
  // The newcomer needs some time before it is a member. Nobody takes it for the silent one.
  Coordinator("until [ $(wc -l < " + Path("members") + ") = 4 ]; do sleep 0.01; done; " +
              "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.01; done; exit 0");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(),
              AllOf(HasSubstr("worker-1 is lost to the job, but runs: it is killed\n"),
                    HasSubstr("worker-1 ended (killed by signal 9): no error in its log; another "
                              "takes its place\n")));
  EXPECT_EQ(Lines("members").size(), 4);
  EXPECT_EQ(plan_->CountsText(), "1 worker replaced");
}

TEST_F(RestartTest, ASilentWorkerIsLeftToTheCoordinator) {
  silent_worker_ = 1;
  run_.interrupt_after = 20;
  Coordinator("exec sleep 1000");
  EXPECT_EQ(run_.Result(), absl::CancelledError("interrupted"));
  EXPECT_EQ(Lives().size(), 1);
}

TEST_F(RestartTest, AJobThatHasNeverTrainedDoesNotStartAgain) {
  phase_ = [](int) { return v1::REGISTERING; };
  Coordinator("exec sleep 1000");
  Worker("echo 'cannot read train.csv'; exit 1");
  EXPECT_THAT(std::string(run_.Result().message()),
              AllOf(HasSubstr("ended (exit code 1): cannot read train.csv; no restart: "),
                    HasSubstr("the job failed before its first step")));
  EXPECT_EQ(Lives().size(), 1);
}

TEST_F(RestartTest, AJobWithACheckpointHasTrainedAlsoIfNobodySawIt) {
  phase_ = [](int) { return v1::REGISTERING; };
  Checkpoint(100);
  Coordinator(kDie, kSecondLifeEnds);
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(plan_->CountsText(), "restarted 1 time");
}

TEST_F(RestartTest, AMemberLostBeforeTrainingInALaterLifeStartsAllAgain) {
  phase_ = [](int life) { return life == 1 ? v1::TRAINING : v1::REGISTERING; };
  Coordinator("exec sleep 1000", "[ $life = 3 ] && exit 0");
  Server("[ $life = 3 ] || kill -9 $$; exec sleep 1000");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(plan_->CountsText(), "restarted 2 times");
}

TEST_F(RestartTest, TheLastErrorSaysHowOftenTheJobWasRestartedAndWhyNotAgain) {
  MakePlan(/*most=*/2);
  Coordinator("exec sleep 1000");
  Server("echo disk full; exit 1");
  EXPECT_EQ(run_.Result().message(),
            "server-0 ended (exit code 1): disk full; with two servers and --replicas=2 the job "
            "would have gone on; restarted 2 times; no restart: --restart=on_failure:2 allows no "
            "more");
  EXPECT_EQ(Lives().size(), 3);
}

TEST_F(RestartTest, AnErrorOfAnEarlierLifeIsNotTakenForTheLastOne) {
  MakePlan(/*most=*/1);
  Coordinator("exec sleep 1000");
  Server("[ $life = 1 ] && echo disk full && exit 1; kill -9 $$");
  EXPECT_THAT(std::string(run_.Result().message()),
              HasSubstr("server-0 ended (killed by signal 9): no error in its log"));
}

TEST_F(RestartTest, AnInterruptEndsAJobThatHasStartedAgain) {
  Coordinator("[ $life = 1 ] || touch " + Path("again") + "; exec sleep 1000");
  Server("[ $life = 1 ] && kill -9 $$; exec sleep 1000");
  phase_ = [this](int) {
    if (std::filesystem::exists(Path("again"))) run_.interrupt_after = 0;
    return v1::TRAINING;
  };
  EXPECT_EQ(run_.Result(), absl::CancelledError("interrupted"));
  EXPECT_EQ(Lives().size(), 2);
}

TEST_F(RestartTest, AJobWhoseCoordinatorHasEndedWellIsDoneWhateverElseWasKilled) {
  run_.end_timeout = absl::Seconds(20);
  phase_ = [this](int) {
    if (!std::filesystem::exists(Path("run/worker-1.log"))) return v1::TRAINING;
    std::ofstream(Path("done")) << "yes";
    return v1::DONE;
  };
  const std::string wait = WaitForFile(run_.programs(), "done");
  Server(wait + kDie);
  Worker(wait + kDie);
  Coordinator(wait + "while kill -0 $(tail -n 1 " + Path("members") +
              "); do sleep 0.01; done; exit 0");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(plan_->CountsText(), "");
}

}  // namespace
}  // namespace capstan
