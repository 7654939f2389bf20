// Jobs of scripts that lose their coordinator, which keeps the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "deploy/launch/fake_job_run.h"
#include "server/checkpoint/example_checkpoint.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// One server and two workers here, which live. "$n" is the coordinator's number, from 1. It answers
// while it is in no file "away".
class CoordinatorLossTest : public ::testing::Test {
 protected:
  CoordinatorLossTest() : run_(::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    run_.keeps_state = true;
    run_.answer = [this] { return Answer(); };
    RestartPlan::Options options;
    options.only_servers = true;
    MakePlan(options);
    for (const std::string role : {"server", "worker"}) {
      run_.programs().Write("capstan_" + role,
                            "echo >>" + Path("members") + "\n" + FakePrograms::kRunForever);
    }
  }

  void MakePlan(const RestartPlan::Options& options) {
    plan_ = RestartPlan::Create(options).value();
    run_.restarts = &*plan_;
  }
  std::string Path(const std::string& file) const { return run_.programs().Path(file); }
  bool Exists(const std::string& file) const { return std::filesystem::exists(Path(file)); }
  void Touch(const std::string& file) const { std::ofstream(Path(file)) << "yes"; }

  // It listens after `before`.
  void Coordinator(const std::string& script, const std::string& before = "") {
    run_.programs().Write("capstan_coordinator", "echo \"$@\" >>" + Path("lives") +
                                                     "\nn=$(wc -l <" + Path("lives") + ")\n" +
                                                     before + "\nrm -f " + Path("away") + "\n" +
                                                     FakePrograms::kListen + "\n" + script);
  }
  // What follows happens when the job has all members and a coordinator has answered so.
  std::string WhenAll(const std::string& what) const {
    return WaitForFile(run_.programs(), "asked_of_all") + what;
  }
  std::string Die() const { return "touch " + Path("away") + "; kill -9 $$"; }
  // The first one dies while the job trains. The job is done in the life of the second one.
  void LoseTheFirst(const std::string& before = "") {
    Coordinator("[ $n = 1 ] || exit 0\n" + WhenAll(Die()), before);
  }
  // The arguments of each coordinator.
  std::vector<std::string> Lives() const {
    std::vector<std::string> lines;
    std::ifstream in(Path("lives"));
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  int MembersStarted() const {
    std::ifstream in(Path("members"));
    int lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    return lines;
  }

  absl::StatusOr<v1::GetStatusReply> Answer() {
    if (Exists("away")) return absl::UnavailableError("connection refused");
    if (Exists("run/worker-1.log")) Touch("asked_of_all");
    v1::GetStatusReply status;
    v1::JobView& view = *status.mutable_view();
    view.set_phase(phase_ ? phase_() : v1::TRAINING);
    view.set_reason("no memory");
    view.add_servers()->set_is_live(true);
    for (int i = 0; i < 2; ++i) view.add_workers()->set_is_live(true);
    view.set_holds_places(true);
    return status;
  }

  FakeJobRun run_;
  std::optional<RestartPlan> plan_;
  std::function<v1::Phase()> phase_;  // TRAINING if there is none
};

constexpr char kGoesOn[] =
    "coordinator ended (killed by signal 9): no error in its log; another one goes on with the "
    "job\n";

TEST_F(CoordinatorLossTest, AnotherOneGoesOnAtTheSameAddressWithTheSameState) {
  LoseTheFirst();
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), HasSubstr(kGoesOn));
  ASSERT_THAT(Lives(),
              AllOf(SizeIs(2), Each(EndsWith("--state=" + Path("run/coordinator.state")))));
  EXPECT_EQ(absl::StrReplaceAll(Lives()[0], {{"127.0.0.1:0", "127.0.0.1:1"}}), Lives()[1]);
  EXPECT_EQ(MembersStarted(), 3);
  EXPECT_EQ(plan_->CountsText(), "1 coordinator replaced");
}

TEST_F(CoordinatorLossTest, TheStateIsRemovedWithTheLastProcess) {
  std::filesystem::create_directories(Path("run/coordinator.state/term-000001"));
  LoseTheFirst(/*before=*/"[ -d " + Path("run/coordinator.state") + " ] && touch " + Path("kept"));
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_TRUE(Exists("kept"));
  EXPECT_FALSE(Exists("run/coordinator.state"));
}

TEST_F(CoordinatorLossTest, OneThatDiesBeforeItListensIsStartedAgainToo) {
  Coordinator(/*script=*/"exit 0", /*before=*/"[ $n = 1 ] && kill -9 $$");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Lives().size(), 2);
}

TEST_F(CoordinatorLossTest, TheSecondAlsoListensAtTheFirstAddressIfOneBetweenThemDidNot) {
  Coordinator("[ $n = 1 ] || exit 0\n" + WhenAll(Die()), /*before=*/"[ $n = 2 ] && kill -9 $$");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  ASSERT_EQ(Lives().size(), 3);
  EXPECT_EQ(Lives()[1], Lives()[2]);
}

TEST_F(CoordinatorLossTest, AMemberLostMeanwhileIsJudgedWhenItIsBack) {
  MakePlan(RestartPlan::Options());
  // The deadline for an answer counts only while somebody could answer.
  run_.end_timeout = absl::ZeroDuration();
  run_.programs().Write("capstan_worker", "echo >>" + Path("members") + "\n[ $(wc -l <" +
                                              Path("members") + ") -gt 2 ] && exec sleep 1000\n" +
                                              WaitForFile(run_.programs(), "away") + "touch " +
                                              Path("worker_died") + "; kill -9 $$");
  Coordinator(
      "[ $n = 1 ] || { " + WaitForFile(run_.programs(), "told") + " exit 0; }\n" + WhenAll(Die()),
      /*before=*/"[ $n = 1 ] || { " + WaitForFile(run_.programs(), "worker_died") + "sleep 0.1; }");
  phase_ = [&] {
    if (absl::StrContains(run_.out.str(), "another takes its place")) Touch("told");
    return v1::TRAINING;
  };
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), HasSubstr("worker-0 ended (killed by signal 9): no error in its log; "
                                        "another takes its place\n"));
  EXPECT_EQ(plan_->CountsText(), "1 coordinator replaced, 1 worker replaced");
}

TEST_F(CoordinatorLossTest, ItsOwnErrorIsTheEndAsBefore) {
  Coordinator("[ $n = 1 ] && " + WhenAll(Die()),
              /*before=*/"[ $n = 1 ] || { echo '--state: damaged' >&2; exit 1; }");
  EXPECT_EQ(run_.Result().message(), "coordinator ended (exit code 1): --state: damaged");
  EXPECT_EQ(Lives().size(), 2);
}

TEST_F(CoordinatorLossTest, AfterTheJobsFailureNobodyGoesOn) {
  phase_ = [&] { return Exists("asked_of_all") ? v1::FAILED : v1::TRAINING; };
  run_.end_timeout = absl::Seconds(60);
  Coordinator("trap 'kill -9 $$' TERM; while :; do sleep 0.01; done");
  EXPECT_THAT(std::string(run_.Result().message()),
              HasSubstr("coordinator ended (killed by signal 9)"));
  EXPECT_EQ(Lives().size(), 1);
}

TEST_F(CoordinatorLossTest, OneThatIsLostAfterItsLastWorkHasEndedWell) {
  run_.end_timeout = absl::Seconds(60);
  Coordinator("[ $n = 1 ] || exit 1\n" + WaitForFile(run_.programs(), "end") +
              "echo done >$summary; kill -9 $$");
  phase_ = [&, answers = 0]() mutable {
    if (!Exists("asked_of_all")) return v1::TRAINING;
    if (++answers > 1) Touch("end");
    return v1::DONE;
  };
  for (const std::string role : {"server", "worker"}) {
    run_.programs().Write("capstan_" + role, WaitForFile(run_.programs(), "end"));
  }
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Lives().size(), 1);
}

TEST_F(CoordinatorLossTest, AfterTheEndTheNextOneMayWaitForTheLease) {
  run_.lease = absl::Seconds(60);
  phase_ = [&] { return Exists("asked_of_all") ? v1::DONE : v1::TRAINING; };
  Coordinator("[ $n = 1 ] || { sleep 1; exit 0; }\n" + WhenAll(Die()));
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Lives().size(), 2);
}

TEST_F(CoordinatorLossTest, OneThatDiesAgainAndAgainIsGivenUp) {
  Coordinator(Die());
  EXPECT_EQ(run_.Result().message(),
            "coordinator ended (killed by signal 9): no error in its log, and no other one is "
            "started: 10 others were lost in a row without a further step: the reason seems to "
            "last");
  EXPECT_EQ(Lives().size(), 11);
}

TEST_F(CoordinatorLossTest, OneThatIsGivenUpStartsAllAgainFromTheCheckpoint) {
  RestartPlan::Options options;
  options.checkpoint_dir = Path("checkpoints");
  MakePlan(options);
  WriteExampleCheckpoint(Path("checkpoints"), 100);
  const std::string state = Path("run/coordinator.state");
  Coordinator("[ $n = 12 ] && [ ! -e " + state + " ] && exit 0\nmkdir -p " + state + "\n" + Die());
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), HasSubstr("the reason seems to last; restart 1 from step 100 "));
  ASSERT_EQ(Lives().size(), 12);
  EXPECT_THAT(Lives()[11], HasSubstr("--restore="));
  EXPECT_EQ(plan_->CountsText(), "restarted 1 time, 10 coordinators replaced");
}

TEST_F(CoordinatorLossTest, WithoutAPlanItsLossIsTheEnd) {
  run_.restarts = nullptr;
  run_.keeps_state = false;
  LoseTheFirst();
  EXPECT_EQ(run_.Result().message(), "coordinator ended (killed by signal 9): no error in its log");
  EXPECT_THAT(Lives(), AllOf(SizeIs(1), Each(Not(HasSubstr("--state")))));
}

TEST_F(CoordinatorLossTest, AnInterruptEndsTheRunWhileNobodyListens) {
  LoseTheFirst(/*before=*/"[ $n = 1 ] || { touch " + Path("starts") + "; exec sleep 1000; }");
  run_.interrupt_when = [&] { return Exists("starts"); };
  EXPECT_EQ(run_.Result(), absl::CancelledError("interrupted"));
  EXPECT_EQ(Lives().size(), 2);
}

}  // namespace
}  // namespace capstan
