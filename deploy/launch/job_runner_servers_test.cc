// Jobs of scripts that lose servers, whose shards have copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/launch/fake_job_run.h"
#include "server/checkpoint/example_checkpoint.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// One server and two workers here, which live. "$n" is the server's number: the first one has 1,
// and the address host:1.
class ServerLossTest : public ::testing::Test {
 protected:
  ServerLossTest() : run_(::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    run_.answer = [this] { return Status(); };
    Coordinator("exec sleep 1000");
    RestartPlan::Options options;
    options.only_servers = true;
    MakePlan(options);
  }

  void MakePlan(const RestartPlan::Options& options) {
    plan_ = RestartPlan::Create(options).value();
    run_.restarts = &*plan_;
  }
  std::string Path(const std::string& file) const { return run_.programs().Path(file); }
  bool Exists(const std::string& file) const { return std::filesystem::exists(Path(file)); }
  void Touch(const std::string& file) const { std::ofstream(Path(file)) << "yes"; }

  void Coordinator(const std::string& script) {
    run_.programs().Write("capstan_coordinator",
                          "echo >>" + Path("lives") + "\n" + FakePrograms::kListen + "\n" + script);
  }
  // Ends when the job has all members and the coordinator has answered so.
  void Server(const std::string& script, const std::string& before = "") {
    run_.programs().Write("capstan_server",
                          "echo >>" + Path("servers") + "\nn=$(wc -l <" + Path("servers") + ")\n" +
                              before +
                              "\necho \"I20260101 00:00:00 1 f.cc:1] registered as server 0 at "
                              "host:$n\"\n" +
                              script);
  }
  std::string EndsWhenAll(const std::string& how = "kill -9 $$") const {
    return WaitForFile(run_.programs(), "asked_of_all") + how;
  }
  // The job is done once `text` was told.
  void EndAfter(const std::string& text) {
    end_ = text;
    Coordinator(WaitForFile(run_.programs(), "told") + "exit 0");
  }
  int Count(const std::string& file) const {
    std::ifstream in(Path(file));
    int lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    return lines;
  }

  v1::GetStatusReply Status() {
    if (Exists("run/worker-1.log")) Touch("asked_of_all");
    if (!end_.empty() && absl::StrContains(run_.out.str(), end_)) Touch("told");
    v1::GetStatusReply status;
    v1::JobView& view = *status.mutable_view();
    view.set_phase(phase_ ? phase_() : v1::TRAINING);
    view.set_reason("no whole copy is left");
    v1::ServerInfo& server = *view.add_servers();
    server.set_address(absl::StrCat("host:", Count("servers")));
    server.set_is_live(is_live_ ? is_live_() : !HasEnded());
    for (int i = 0; i < 2; ++i) view.add_workers()->set_is_live(true);
    if (has_copies_) view.add_copies();
    return status;
  }
  // Whether the newest server has ended.
  bool HasEnded() const { return Count("dead") == Count("servers"); }

  FakeJobRun run_;
  std::optional<RestartPlan> plan_;
  std::function<v1::Phase()> phase_;  // TRAINING if there is none
  std::function<bool()> is_live_;     // the server; by default until it is in the file "dead"
  bool has_copies_ = true;

 private:
  std::string end_;
};

constexpr char kReplaced[] =
    "server-0 ended (killed by signal 9): no error in its log; other servers have its shards, and "
    "another one is started in its place\n";

TEST_F(ServerLossTest, AnotherServerTakesThePlaceOfALostOneAlone) {
  Server("[ $n = 1 ] || exec sleep 1000\n" +
         EndsWhenAll("echo >>" + Path("dead") + "; kill -9 $$"));
  EndAfter("another one is started");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), HasSubstr(kReplaced));
  EXPECT_EQ(Count("lives"), 1);
  EXPECT_EQ(plan_->CountsText(), "1 server replaced");
}

TEST_F(ServerLossTest, AServerThatWasAskedToEndIsReplacedToo) {
  Server("[ $n = 1 ] || exec sleep 1000\n" +
         EndsWhenAll("echo >>" + Path("dead") + "; echo was asked to end, and has left; exit 143"));
  EndAfter("another one is started");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), HasSubstr("server-0 ended (exit code 143): was asked to end, and has "
                                        "left; other servers have its shards, and another one"));
}

TEST_F(ServerLossTest, NobodyIsStartedBeforeTheCoordinatorKnowsOfTheLoss) {
  Server("[ $n = 1 ] || exec sleep 1000\n" + EndsWhenAll("touch " + Path("end") + "; kill -9 $$"));
  int questions_after_end = 0, servers_so_far = 0;
  is_live_ = [&] {
    if (Exists("end")) ++questions_after_end;
    if (questions_after_end == 20) servers_so_far = Count("servers");
    return questions_after_end < 20 || Count("servers") > 1;
  };
  EndAfter("another one is started");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(servers_so_far, 1);
}

TEST_F(ServerLossTest, IfNoWholeCopyIsLeftTheJobStartsAgainFromItsCheckpoint) {
  MakePlan({Path("checkpoints")});
  WriteExampleCheckpoint(Path("checkpoints"), 100);
  Server("[ $n = 1 ] || exec sleep 1000\n" + EndsWhenAll("touch " + Path("end") + "; kill -9 $$"));
  Coordinator("[ $(wc -l <" + Path("lives") + ") = 1 ] || exit 0; exec sleep 1000");
  is_live_ = [] { return true; };
  phase_ = [&, after_end = 0]() mutable {
    return Exists("end") && Count("lives") == 1 && ++after_end > 5 ? v1::FAILED : v1::TRAINING;
  };
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(), HasSubstr("the job failed: no whole copy is left; restart 1 from"));
  EXPECT_EQ(plan_->CountsText(), "restarted 1 time");
}

TEST_F(ServerLossTest, WithoutCopiesTheFailureSaysWhatTheyWouldHaveDone) {
  has_copies_ = false;
  MakePlan({Path("checkpoints")});
  Server(EndsWhenAll());
  Coordinator("[ $(wc -l <" + Path("lives") + ") = 1 ] || exit 0; exec sleep 1000");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(),
              HasSubstr("no error in its log; with two servers and --replicas=2 the "
                        "job would have gone on; restart 1 "));
  run_.restarts = nullptr;
  Coordinator("exec sleep 1000");
  EXPECT_THAT(std::string(run_.Result().message()),
              HasSubstr("; it was the last one; with two servers and --replicas=2 the job would"));
}

TEST_F(ServerLossTest, WithoutAPlanNobodyIsStarted) {
  run_.restarts = nullptr;
  Server(EndsWhenAll("echo >>" + Path("dead") + "; kill -9 $$"));
  EndAfter("; other servers have its shards, and no other one is started: --restart=never\n");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Count("servers"), 1);
}

TEST_F(ServerLossTest, WhileTheResultIsWrittenNobodyIsStarted) {
  phase_ = [] { return v1::SAVING; };
  Server(EndsWhenAll("echo >>" + Path("dead") + "; kill -9 $$"));
  EndAfter("and no other one is started: the job is near its end\n");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Count("servers"), 1);
}

TEST_F(ServerLossTest, AServerThatDiesAgainAndAgainIsNotStartedAgain) {
  Server("echo >>" + Path("dead") + "; echo no memory; exit 1",
         /*before=*/WaitForFile(run_.programs(), "may_end"));
  phase_ = [&] {
    if (Exists("asked_of_all")) Touch("may_end");
    return v1::TRAINING;
  };
  EndAfter("no other one is started: 10 others were lost in a row before");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(Count("servers"), 11);
  EXPECT_THAT(run_.out.str(), HasSubstr("server-0 ended (exit code 1): no memory; other servers "));
}

TEST_F(ServerLossTest, AStoppedServerThatIsLostIsKilledAndReplaced) {
  Server("exec sleep 1000");
  is_live_ = [&] { return !Exists("asked_of_all") || Count("servers") == 2; };
  EndAfter("another one is started");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(),
              AllOf(HasSubstr("server-0 is lost to the job, but runs: it is killed\n"),
                    HasSubstr(kReplaced)));
}

TEST_F(ServerLossTest, AServerThatLeavesMayEndByItself) {
  run_.server_patience = absl::Seconds(60);
  Server("[ $n = 1 ] || exec sleep 1000\n" + EndsWhenAll("sleep 0.3; exit 143"));
  is_live_ = [&] { return !Exists("asked_of_all") || Count("servers") == 2; };
  EndAfter("another one is started");
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run_.out.str(),
              AllOf(HasSubstr("server-0 ended (exit code 143)"), Not(HasSubstr("it is killed"))));
}

// The others have heard of the end. Nobody waits for the newcomer, which looks for the coordinator.
TEST_F(ServerLossTest, AServerThatHasNotComeDoesNotDelayTheEnd) {
  Server("exec sleep 1000",
         /*before=*/"[ $n = 1 ] || exec sleep 1000\n" +
             EndsWhenAll(
                 "echo 'I20260101 00:00:00 1 f.cc:1] registered as server 0 at host:1'; echo >>" +
                 Path("dead") + "; kill -9 $$"));
  run_.programs().Write("capstan_worker", WaitForFile(run_.programs(), "told"));
  is_live_ = [&] { return Count("dead") == 0; };
  EndAfter("another one is started");
  run_.end_timeout = absl::Seconds(60);
  const absl::Time begin = absl::Now();
  const absl::Status result = run_.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
  EXPECT_EQ(Count("servers"), 2);
}

TEST_F(ServerLossTest, AStoppedServerThatIsLostDoesNotDelayAnInterrupt) {
  Server("exec sleep 1000");
  is_live_ = [&] { return !Exists("asked_of_all"); };
  phase_ = [&] {
    if (Exists("asked_of_all")) run_.interrupt_after = 0;
    return v1::TRAINING;
  };
  Coordinator("trap 'touch " + Path("told") + "; exit 1' TERM\nwhile :; do sleep 0.01; done");
  run_.programs().Write("capstan_worker", WaitForFile(run_.programs(), "told"));
  run_.failure_timeout = absl::Seconds(60);
  const absl::Time begin = absl::Now();
  EXPECT_EQ(run_.Result(), absl::CancelledError("interrupted"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
}

}  // namespace
}  // namespace capstan
