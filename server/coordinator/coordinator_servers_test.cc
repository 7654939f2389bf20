// A coordinator whose servers are lost, with two replicas: broken connections, leases, reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/metrics/metrics_page.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

v1::JobSpec JobWithReplicas(uint32_t replicas = 2) {
  v1::JobSpec job = ScriptedJob::Job();
  job.mutable_cluster()->set_replicas(replicas);
  return job;
}

class CoordinatorServersTest : public testing::Test {
 protected:
  explicit CoordinatorServersTest(uint32_t replicas = 2) : job_(JobWithReplicas(replicas)) {
    job_.StartTraining();
  }

  // The copies of the server's shards are whole.
  void MakeWhole(uint32_t server) {
    const v1::JobView view = job_.View();
    v1::HeartbeatRequest heartbeat;
    heartbeat.set_role(v1::HeartbeatRequest::SERVER);
    heartbeat.set_id(server);
    heartbeat.set_incarnation(view.servers(static_cast<int>(server)).incarnation());
    heartbeat.set_view_version(view.version());
    for (int shard = 0; shard < view.copies_size(); ++shard) {
      v1::WholeCopy& whole = *heartbeat.mutable_copies()->add_whole();
      whole.set_shard(static_cast<uint32_t>(shard));
      whole.set_number(view.copies(shard).number());
    }
    CallCoordinator(job_.coordinator(), heartbeat,
                    [](const absl::StatusOr<v1::HeartbeatReply>& reply) {
                      EXPECT_TRUE(reply.ok()) << reply.status();
                    });
  }
  void MakeAllWhole() {
    for (const uint32_t server : {0, 1}) MakeWhole(server);
  }
  void Park(MemberKey member) {
    EXPECT_FALSE(job_.Heartbeat(member, job_.View().version())->has_value());
  }
  void Break(MemberKey member, bool is_heartbeat = false) {
    v1::AttendRequest broken;
    broken.set_role(member.role);
    broken.set_id(member.id);
    broken.set_incarnation(ScriptedJob::IncarnationOf(member));
    job_.coordinator().NoteBroken(broken, is_heartbeat);
  }
  void Attend(MemberKey member) {
    v1::AttendRequest request;
    request.set_role(member.role);
    request.set_id(member.id);
    request.set_incarnation(ScriptedJob::IncarnationOf(member));
    CallCoordinator(job_.coordinator(), request, [](const absl::StatusOr<v1::AttendReply>&) {});
  }
  bool IsLive(int server) { return job_.View().servers(server).is_live(); }

  ScriptedJob job_;
};

TEST_F(CoordinatorServersTest, AServerWhoseConnectionHasBrokenIsLostAfterAShortTime) {
  MakeAllWhole();
  Park(Server(0));
  Park(Server(1));
  const ScriptedJob::Beat worker = job_.Heartbeat(Worker(0), job_.View().version());
  Break(Server(0));
  job_.clock().Advance(absl::Milliseconds(299));
  EXPECT_TRUE(IsLive(0));
  EXPECT_FALSE(worker->has_value());
  job_.clock().Advance(absl::Milliseconds(1));
  EXPECT_FALSE(IsLive(0));
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
  ASSERT_TRUE(worker->has_value()) << "it is told at once";
  EXPECT_EQ(ViewOf((*worker)->value())->epoch(), 2u);
  const ScriptedJob::Beat late = job_.Heartbeat(Server(0), 0);
  ASSERT_TRUE(late->has_value());
  EXPECT_THAT(std::string((*late)->status().message()), HasSubstr("this process must stop"));
}

TEST_F(CoordinatorServersTest, AServerThatComesAgainInTimeIsNotLost) {
  MakeAllWhole();
  Park(Server(0));
  Break(Server(0));
  job_.clock().Advance(absl::Milliseconds(299));
  Park(Server(0));
  job_.clock().Advance(absl::Seconds(9));
  EXPECT_TRUE(IsLive(0));
  EXPECT_EQ(job_.View().epoch(), 1u);
}

// It was on its way when the process ended, and is taken after the end of the call Attend.
TEST_F(CoordinatorServersTest, ALateHeartbeatOfABrokenConnectionDoesNotSaveAServer) {
  MakeAllWhole();
  Park(Server(0));
  Break(Server(0));
  Park(Server(0));
  Break(Server(0), /*is_heartbeat=*/true);
  job_.clock().Advance(absl::Milliseconds(299));
  EXPECT_TRUE(IsLive(0));
  job_.clock().Advance(absl::Milliseconds(1));
  EXPECT_FALSE(IsLive(0));
}

TEST_F(CoordinatorServersTest, AHeartbeatThatWasGivenUpIsNoSignOfAnEndWhileItsMemberAttends) {
  MakeAllWhole();
  Attend(Server(0));
  Park(Server(0));
  Break(Server(0), /*is_heartbeat=*/true);
  job_.clock().Advance(absl::Seconds(9));
  EXPECT_TRUE(IsLive(0));
}

TEST_F(CoordinatorServersTest, WithoutWholeCopiesABrokenConnectionLeavesTheLeaseAsItIs) {
  MakeWhole(1);
  Park(Server(0));
  Break(Server(0));
  job_.PassTime(absl::Milliseconds(9'999), {Server(1), Worker(0), Worker(1)});
  EXPECT_TRUE(IsLive(0));
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
  job_.PassTime(absl::Seconds(1), {Server(1), Worker(0), Worker(1)});
  EXPECT_EQ(job_.View().phase(), v1::FAILED);
  EXPECT_THAT(job_.View().reason(), HasSubstr("server 0 (host:4567) has been silent for 10 s "
                                              "(lease); no whole copy is left of 2 of its shards"));
}

TEST_F(CoordinatorServersTest, AServerThatIsNeededMeanwhileHasAWholeLeaseAgain) {
  MakeAllWhole();
  for (const uint32_t server : {0, 1}) {
    Park(Server(server));
    Break(Server(server));
    job_.clock().Advance(absl::Milliseconds(100));
  }
  job_.clock().Advance(absl::Milliseconds(100));
  EXPECT_FALSE(IsLive(0));
  job_.PassTime(absl::Seconds(9), {Worker(0), Worker(1)});
  EXPECT_TRUE(IsLive(1)) << "all shards are there";
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
  Park(Server(1));
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
}

TEST_F(CoordinatorServersTest, ASilentServerIsLostAfterItsLeaseAndTheJobGoesOn) {
  MakeAllWhole();
  job_.PassTime(absl::Seconds(11), {Server(1), Worker(0), Worker(1)});
  EXPECT_FALSE(IsLive(0));
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
  EXPECT_EQ(job_.View().epoch(), 2u);
}

TEST_F(CoordinatorServersTest, AnotherProcessInItsPlaceHasALeaseOfItsOwn) {
  MakeAllWhole();
  Park(Server(0));
  Break(Server(0));
  ASSERT_TRUE(job_.ReportFailure(Server(0), "no memory").ok());
  ASSERT_EQ(job_.RegisterServer(/*incarnation=*/300, "other:1").value(), 0u);
  EXPECT_TRUE(IsLive(0));
  job_.PassTime(absl::Seconds(9), {Server(1), Worker(0), Worker(1)});
  EXPECT_TRUE(IsLive(0));
}

TEST_F(CoordinatorServersTest, TheEndAwaitsTheProcessInAFailedServersPlace) {
  MakeAllWhole();
  ASSERT_TRUE(job_.ReportFailure(Server(0), "no memory").ok());
  ASSERT_EQ(job_.RegisterServer(/*incarnation=*/300, "other:1").value(), 0u);
  std::optional<JobOutcome> outcome;
  job_.coordinator().OnEnd([&](JobOutcome ended) { outcome = std::move(ended); });
  std::vector<ScriptedJob::Beat> beats;
  for (const MemberKey member : {Server(1), Worker(0), Worker(1)}) {
    beats.push_back(job_.Heartbeat(member, job_.View().version()));
  }
  job_.coordinator().Fail("a signal");
  EXPECT_FALSE(outcome.has_value()) << "the new server 0 does not know it";
  job_.clock().Advance(absl::Seconds(10));
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(CoordinatorServersTest, LostServersAreCountedForGood) {
  MakeAllWhole();
  ASSERT_TRUE(job_.ReportFailure(Server(0), "no memory").ok());
  ASSERT_EQ(job_.RegisterServer(/*incarnation=*/300, "other:1").value(), 0u);
  MetricsPage page;
  job_.coordinator().AddMetrics(page);
  EXPECT_THAT(page.Text(), HasSubstr("\ncapstan_servers_lost_total 1\n"));
  EXPECT_THAT(page.Text(), HasSubstr("\ncapstan_servers_replaced_total 1\n"));
  EXPECT_THAT(page.Text(), HasSubstr("members{role=\"server\",state=\"live\"} 2\n"));
}

class CoordinatorOneReplicaTest : public CoordinatorServersTest {
 protected:
  CoordinatorOneReplicaTest() : CoordinatorServersTest(/*replicas=*/1) {}
};

TEST_F(CoordinatorOneReplicaTest, ABrokenConnectionOfALostServersNothing) {
  Park(Server(0));
  Break(Server(0));
  job_.clock().Advance(absl::Seconds(9));
  EXPECT_TRUE(IsLive(0));
}

}  // namespace
}  // namespace capstan
