#include "server/coordinator/members/member_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr Role kServer = v1::HeartbeatRequest::SERVER;
constexpr Role kWorker = v1::HeartbeatRequest::WORKER;

std::string ErrorOf(MemberRegistry& members, MemberKey key, uint64_t incarnation,
                    absl::StatusCode code = absl::StatusCode::kFailedPrecondition) {
  const absl::Status status = members.Find(key, Incarnation(incarnation)).status();
  EXPECT_EQ(status.code(), code);
  return std::string(status.message());
}

TEST(MemberRegistryTest, GivesIdsInOrderOfRegistrationForEachRole) {
  MemberRegistry members(/*num_servers=*/2, /*num_workers=*/1);
  EXPECT_EQ(members.Add(kServer, Incarnation(7), {"a:1"}).value(), 0u);
  EXPECT_EQ(members.Add(kServer, Incarnation(8), {"b:1"}).value(), 1u);
  EXPECT_FALSE(members.is_complete());
  EXPECT_EQ(members.Add(kWorker, Incarnation(9), {}).value(), 0u);
  EXPECT_TRUE(members.is_complete());
}

TEST(MemberRegistryTest, RefusesOneMemberTooMany) {
  MemberRegistry members(/*num_servers=*/1, /*num_workers=*/2);
  ASSERT_TRUE(members.Add(kWorker, Incarnation(1), {}).ok());
  ASSERT_TRUE(members.Add(kWorker, Incarnation(2), {}).ok());
  const absl::Status status = members.Add(kWorker, Incarnation(3), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the job has its 2 workers already; "));
}

TEST(MemberRegistryTest, FindsAMemberByItsIncarnation) {
  MemberRegistry members(1, 1);
  ASSERT_TRUE(members.Add(kWorker, Incarnation(5), {}).ok());
  EXPECT_EQ(members.FindIncarnation(kWorker, Incarnation(5)), 0u);
  EXPECT_EQ(members.FindIncarnation(kWorker, Incarnation(6)), std::nullopt);
  EXPECT_EQ(members.FindIncarnation(kServer, Incarnation(5)), std::nullopt);
}

TEST(MemberRegistryTest, RefusesWhoIsNotTheMemberThatItSays) {
  MemberRegistry members(1, 1);
  ASSERT_TRUE(members.Add(kWorker, Incarnation(5), {}).ok());
  EXPECT_THAT(ErrorOf(members, {kWorker, 1}, 5), HasSubstr("worker 1 has not registered"));
  EXPECT_THAT(ErrorOf(members, {kWorker, 0}, 4),
              HasSubstr("worker 0 is another process (incarnation 5, not 4)"));
  EXPECT_THAT(ErrorOf(members, {static_cast<Role>(7), 0}, 5, absl::StatusCode::kInvalidArgument),
              HasSubstr("role 7"));
}

TEST(MemberRegistryTest, TellsADeadMemberWhy) {
  MemberRegistry members(1, 1);
  ASSERT_TRUE(members.Add(kWorker, Incarnation(5), {}).ok());
  members.OfRole(kWorker)[0].end = "was declared dead because it was silent for 10 s";
  EXPECT_THAT(ErrorOf(members, {kWorker, 0}, 5),
              HasSubstr("worker 0 was declared dead because it was silent for 10 s; "));
}

TEST(MemberRegistryTest, KnowsWhoseWorkersPlaceWasTaken) {
  MemberRegistry members(1, 1);
  ASSERT_TRUE(members.Add(kWorker, Incarnation(5), {}).ok());
  EXPECT_FALSE(members.IsReplaced(Incarnation(5)));
  members.OfRole(kWorker)[0].end = "was declared dead";
  ASSERT_TRUE(members.TakePlaceOfDeadWorker(Incarnation(6)).ok());
  EXPECT_TRUE(members.IsReplaced(Incarnation(5)));
  EXPECT_FALSE(members.IsReplaced(Incarnation(6)));
}

TEST(MemberRegistryTest, AHeldPlaceIsTakenBeforeOthersUnlessTheProcessHasARank) {
  MemberRegistry members(1, 3);
  for (const uint64_t incarnation : {5, 6, 7}) {
    ASSERT_TRUE(members.Add(kWorker, Incarnation(incarnation), {}).ok());
  }
  for (Member& worker : members.OfRole(kWorker)) worker.end = "was declared dead";
  members.OfRole(kWorker)[1].holds_place = true;
  EXPECT_EQ(members.TakePlaceOfDeadWorker(Incarnation(8), /*rank=*/2).value(), 2u);
  EXPECT_EQ(members.TakePlaceOfDeadWorker(Incarnation(9)).value(), 1u);
  EXPECT_EQ(members.TakePlaceOfDeadWorker(Incarnation(10)).value(), 0u);
}

TEST(MemberRegistryTest, KnowsWhoIsDone) {
  MemberRegistry members(1, 2);
  ASSERT_TRUE(members.Add(kServer, Incarnation(1), {"a:1"}).ok());
  for (const uint64_t incarnation : {5, 6}) {
    ASSERT_TRUE(members.Add(kWorker, Incarnation(incarnation), {}).ok());
  }
  EXPECT_FALSE(members.ServersHaveSeen(3));
  members.OfRole(kServer)[0].view_version = 3;
  EXPECT_TRUE(members.ServersHaveSeen(3));
  v1::Progress& progress = members.OfRole(kWorker)[1].progress;
  progress.set_steps_total(9);
  progress.set_steps_done(9);
  EXPECT_FALSE(members.LiveWorkersHaveFinished());
  EXPECT_EQ(members.LowestLiveWorker(), 0u);
  members.OfRole(kWorker)[0].end = "was silent";
  EXPECT_TRUE(members.LiveWorkersHaveFinished());
  EXPECT_EQ(members.LowestLiveWorker(), 1u);
  v1::JobView view;
  members.WriteTo(view);
  members.WriteTo(view);
  ASSERT_EQ(view.workers_size(), 2);
  EXPECT_FALSE(view.workers(0).is_live());
  EXPECT_EQ(view.workers(1).incarnation(), 6u);
  EXPECT_EQ(view.servers(0).address(), "a:1");
}

TEST(MemberRegistryTest, NobodyIsDoneBeforeAHeldPlaceHasAWorkerAgain) {
  MemberRegistry members(1, 2);
  for (const uint64_t incarnation : {5, 6}) {
    ASSERT_TRUE(members.Add(kWorker, Incarnation(incarnation), {}).ok());
  }
  std::vector<Member>& workers = members.OfRole(kWorker);
  for (Member& worker : workers) {
    worker.progress.set_steps_total(9);
    worker.progress.set_steps_done(9);
  }
  workers[0].end = "was silent";
  workers[0].holds_place = true;
  EXPECT_FALSE(members.LiveWorkersHaveFinished()) << "whatever the lost one has done";
  workers[1].end = "was silent";
  EXPECT_TRUE(members.HasWorkers());
  EXPECT_EQ(members.LowestLiveWorker(), std::nullopt);
  v1::JobView view;
  members.WriteTo(view);
  EXPECT_TRUE(view.workers(0).holds_place());
  EXPECT_FALSE(view.workers(1).holds_place());
  ASSERT_EQ(members.TakePlaceOfDeadWorker(Incarnation(7)).value(), 0u);
  EXPECT_TRUE(workers[0].holds_place) << "until it has a first step";
  EXPECT_FALSE(members.LiveWorkersHaveFinished());
  workers[0].end = "was silent";
  workers[0].holds_place = false;
  EXPECT_FALSE(members.HasWorkers());
}

TEST(MemberRegistryTest, WorkersComputeThatHaveBegunAndAreNotDone) {
  MemberRegistry members(1, 4);
  for (uint64_t incarnation = 5; incarnation < 9; ++incarnation) {
    ASSERT_TRUE(members.Add(kWorker, Incarnation(incarnation), {}).ok());
  }
  std::vector<Member>& workers = members.OfRole(kWorker);
  EXPECT_FALSE(members.HasEnteringWorkers());
  workers[0].end = "was silent";
  workers[1].is_entering = true;
  workers[2].progress.set_steps_total(9);
  workers[2].progress.set_steps_done(9);
  EXPECT_TRUE(members.HasEnteringWorkers());
  EXPECT_THAT(members.Computing(), testing::ElementsAre(&workers[3]));
  v1::JobView view;
  members.WriteTo(view);
  EXPECT_TRUE(view.workers(1).is_entering());
  EXPECT_FALSE(view.workers(3).is_entering());
}

TEST(MemberRegistryTest, TheLatestFirstStepStaysWhenItsWorkerIsReplaced) {
  MemberRegistry members(1, 2);
  for (const uint64_t incarnation : {5, 6}) {
    ASSERT_TRUE(members.Add(kWorker, Incarnation(incarnation), {}).ok());
  }
  members.BeginAt(1, Step(8));
  members.BeginAt(0, Step(3));
  EXPECT_EQ(members.workers()[0].first_step, Step(3));
  members.OfRole(kWorker)[1].end = "was silent";
  ASSERT_TRUE(members.TakePlaceOfDeadWorker(Incarnation(7)).ok());
  EXPECT_EQ(members.latest_first_step(), Step(8));
}

TEST(CheckAddressTest, AcceptsHostAndPort) {
  for (const char* address : {"127.0.0.1:4000", "host.example:1", "[::1]:65535"}) {
    EXPECT_TRUE(CheckAddress(address).ok()) << address;
  }
}

TEST(CheckAddressTest, RefusesAnythingElse) {
  for (const char* address : {"", "host", ":80", "host:", "host:0", "host:65536", "host:x", "a b:1",
                              "::1:80", "http://host:80"}) {
    EXPECT_EQ(CheckAddress(address).code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

TEST(MemberRegistryTest, DeadServersAreNotAwaited) {
  MemberRegistry members(2, 1);
  for (const uint64_t incarnation : {5, 6}) {
    ASSERT_TRUE(members.Add(kServer, Incarnation(incarnation), {"a:1"}).ok());
  }
  members.OfRole(kServer)[0].view_version = 3;
  EXPECT_FALSE(members.ServersHaveSeen(3));
  EXPECT_EQ(members.LiveServerCount(), 2u);
  members.OfRole(kServer)[1].end = "was declared dead";
  EXPECT_TRUE(members.ServersHaveSeen(3));
  EXPECT_EQ(members.LiveServerCount(), 1u);
  EXPECT_TRUE(members.IsLiveServer(0));
  EXPECT_FALSE(members.IsLiveServer(1));
  EXPECT_FALSE(members.IsLiveServer(2));
}

TEST(MemberRegistryTest, AServerInADeadOnesPlaceBeginsAnewAndTheDeadOneDoesNotComeBack) {
  MemberRegistry members(2, 1);
  for (const uint64_t incarnation : {5, 6}) {
    ASSERT_TRUE(members.Add(kServer, Incarnation(incarnation), {"a:1"}).ok());
  }
  EXPECT_EQ(members.TakePlaceOfDeadServer(Incarnation(7), {"b:2"}, "b"), std::nullopt);
  Member& server = members.OfRole(kServer)[1];
  server.end = "was declared dead";
  server.view_version = 9;
  server.load.set_exchanges(4);
  EXPECT_EQ(members.TakePlaceOfDeadServer(Incarnation(7), {"b:2"}, "b"), 1u);
  EXPECT_TRUE(server.is_live());
  EXPECT_EQ(server.address.grpc, "b:2");
  EXPECT_EQ(server.host, "b");
  EXPECT_EQ(server.view_version, 0u);
  EXPECT_EQ(server.load.exchanges(), 0u);
  EXPECT_EQ(members.servers_replaced(), 1u);
  EXPECT_TRUE(members.IsReplaced(Incarnation(6)));
  EXPECT_THAT(ErrorOf(members, {kServer, 1}, 6), HasSubstr("server 1 is another process"));
}

TEST(MemberRegistryTest, AServerTakesThePlaceWithItsOwnAddressFirst) {
  MemberRegistry members(3, 1);
  for (const char* const address : {"a:1", "b:1", "c:1"}) {
    ASSERT_TRUE(members.Add(kServer, Incarnation(static_cast<uint64_t>(*address)), {address}).ok());
  }
  members.OfRole(kServer)[1].end = members.OfRole(kServer)[2].end = "was declared dead";
  EXPECT_EQ(members.TakePlaceOfDeadServer(Incarnation(7), {"c:1"}, ""), 2u);
  EXPECT_EQ(members.TakePlaceOfDeadServer(Incarnation(8), {"d:1"}, ""), 1u);
}

}  // namespace
}  // namespace capstan
