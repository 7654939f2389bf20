#include "server/coordinator/members/registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Kind = Registration::Place::Kind;

v1::RegisterWorkerRequest Newcomer(uint64_t incarnation, uint64_t elements = 64) {
  v1::RegisterWorkerRequest request;
  request.set_incarnation(incarnation);
  request.set_host("h");
  request.add_tables()->set_name("w");
  request.mutable_tables(0)->add_shape(elements);
  request.set_may_enter_late(true);
  return request;
}

v1::JobSpec TwoWorkers() {
  v1::JobSpec job = ExampleFacts::WithMembers({}, 1, 2);
  job.mutable_membership()->set_registration_seconds(20);
  return job;
}

class RegistrationTest : public testing::Test {
 protected:
  explicit RegistrationTest(RestorePoint restored = {})
      : facts_(TwoWorkers(), clock_, std::move(restored)), registration_(facts_) {
    facts_.view.set_phase(v1::REGISTERING);
  }
  absl::StatusOr<Registration::Place> AddServer() {
    v1::RegisterServerRequest server;
    server.set_incarnation(1);
    server.set_address("host:1");
    return registration_.AddServer(server, events_);
  }
  absl::StatusOr<Registration::Place> Add(const v1::RegisterWorkerRequest& worker) {
    return registration_.AddWorker(worker, /*slice_bytes=*/64, events_);
  }
  void Train() {
    ASSERT_TRUE(AddServer().ok());
    for (const uint64_t incarnation : {10, 11}) ASSERT_TRUE(Add(Newcomer(incarnation)).ok());
    facts_.view.set_phase(v1::TRAINING);
  }

  FakeClock clock_;
  JobFacts facts_;
  JobEvents events_;
  Registration registration_;
};

TEST_F(RegistrationTest, AProcessHasOnePlaceHoweverOftenItAsks) {
  const Registration::Place place = Add(Newcomer(10)).value();
  EXPECT_EQ(place.id, 0u);
  EXPECT_EQ(place.kind, Kind::kNew);
  const Registration::Place again = Add(Newcomer(10)).value();
  EXPECT_EQ(again.id, 0u);
  EXPECT_EQ(again.kind, Kind::kKnown);
  EXPECT_EQ(Add(Newcomer(11))->id, 1u);
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_EQ(events_[1].text, "worker 1 has registered");
  EXPECT_EQ(AddServer()->id, 0u);
  EXPECT_EQ(events_[2].text, "server 0 has registered at host:1");
}

TEST_F(RegistrationTest, AWorkerTakesADeadOnesPlaceOnlyWhileTheJobTrains) {
  Train();
  facts_.members.OfRole(v1::HeartbeatRequest::WORKER)[1].end = "it is gone";
  v1::RegisterWorkerRequest from_the_start = Newcomer(50);
  from_the_start.set_may_enter_late(false);
  EXPECT_TRUE(absl::IsFailedPrecondition(Add(from_the_start).status()));
  facts_.view.set_phase(v1::EVALUATING);
  EXPECT_THAT(std::string(Add(Newcomer(50)).status().message()),
              HasSubstr("workers have done their steps"));
  facts_.view.set_phase(v1::TRAINING);
  const Registration::Place place = Add(Newcomer(50)).value();
  EXPECT_EQ(place.id, 1u);
  EXPECT_EQ(place.kind, Kind::kOfDeadWorker);
  EXPECT_EQ(events_.back().text, "another worker takes the place of worker 1");
  EXPECT_THAT(std::string(Add(Newcomer(11)).status().message()),
              HasSubstr("another one has taken its place"));
}

// A worker may have been lost that nobody misses so far.
TEST_F(RegistrationTest, AWorkerThatComesLateBeforeTheTrainingMayAskAgain) {
  for (const uint64_t incarnation : {10, 11}) ASSERT_TRUE(Add(Newcomer(incarnation)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Add(Newcomer(50)).status())) << "a server is missing";
  ASSERT_TRUE(AddServer().ok());
  facts_.view.set_phase(v1::PLACING);
  EXPECT_TRUE(absl::IsResourceExhausted(Add(Newcomer(50)).status()));
  v1::RegisterWorkerRequest from_the_start = Newcomer(50);
  from_the_start.set_may_enter_late(false);
  EXPECT_TRUE(absl::IsFailedPrecondition(Add(from_the_start).status()));
  facts_.members.OfRole(v1::HeartbeatRequest::WORKER)[1].end = "it is gone";
  facts_.view.set_phase(v1::TRAINING);
  EXPECT_EQ(Add(Newcomer(50))->id, 1u);
}

TEST_F(RegistrationTest, AJobThatHasEndedTakesNobody) {
  facts_.view.set_reason("it broke");
  facts_.view.set_phase(v1::FAILED);
  const absl::Status failed = Add(Newcomer(10)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), HasSubstr("ended already (it broke)"));
  facts_.view.set_phase(v1::DONE);
  EXPECT_THAT(std::string(Add(Newcomer(10)).status().message()), HasSubstr("(it is done)"));
}

TEST_F(RegistrationTest, TheTextOfWhoIsMissingAlsoSaysWhoWasRefused) {
  EXPECT_EQ(registration_.deadline(), clock_.Now() + absl::Seconds(20));
  ASSERT_TRUE(Add(Newcomer(10)).ok());
  EXPECT_THAT(registration_.MissingText(),
              HasSubstr("after 20 s (--registration_seconds) 0 of 1 servers and 1 of 2 workers"));
  EXPECT_THAT(registration_.MissingText(), Not(HasSubstr("refused")));
  ASSERT_FALSE(Add(Newcomer(11, /*elements=*/65)).ok());
  EXPECT_THAT(registration_.MissingText(), HasSubstr("; refused: a worker on h: "));
  EXPECT_THAT(events_.back().text, HasSubstr("refused a worker on h: "));
}

TEST_F(RegistrationTest, NobodyIsAwaitedOnceAllHaveCome) {
  Train();
  facts_.view.set_phase(v1::REGISTERING);
  EXPECT_EQ(registration_.deadline(), absl::InfiniteFuture());
}

RestorePoint Restored() {
  RestorePoint restored;
  restored.path = "dir/c1";
  *restored.manifest.mutable_tables() = Newcomer(0).tables();
  for (const int64_t step : {40, 43}) restored.manifest.add_workers()->set_first_step(step);
  return restored;
}

class RestoredRegistrationTest : public RegistrationTest {
 protected:
  RestoredRegistrationTest() : RegistrationTest(Restored()) {}
};

TEST_F(RestoredRegistrationTest, WorkersBeginAtTheStepsOfTheCheckpoint) {
  for (const uint64_t incarnation : {10, 11}) ASSERT_TRUE(Add(Newcomer(incarnation)).ok());
  EXPECT_EQ(facts_.members.workers()[0].first_step, Step(40));
  EXPECT_EQ(facts_.members.workers()[1].first_step, Step(43));
  EXPECT_EQ(facts_.members.latest_first_step(), Step(43));
}

// A job with two replicas and two servers that trains; server 0 has the incarnation 100.
class ServerPlacesTest : public testing::Test {
 protected:
  ServerPlacesTest() { example_.Server(0).address = {"old:1"}; }
  static v1::JobSpec Job() {
    v1::JobSpec job;
    job.mutable_cluster()->set_replicas(2);
    return job;
  }
  static v1::RegisterServerRequest Server(uint64_t incarnation, const char* address = "new:1") {
    v1::RegisterServerRequest request;
    request.set_incarnation(incarnation);
    request.set_address(address);
    return request;
  }
  std::string RefusalOf(uint64_t incarnation) {
    const absl::Status status =
        registration_.AddServer(Server(incarnation), example_.events).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  }

  ExampleFacts example_{/*num_servers=*/2, /*num_workers=*/1, Job()};
  Registration registration_{example_.facts};
};

TEST_F(ServerPlacesTest, WhileAllAreLiveANewcomerIsToAskAgain) {
  example_.facts.view.set_phase(v1::TRAINING);
  const absl::Status status = registration_.AddServer(Server(50), example_.events).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the job has its 2 servers already"));
}

TEST_F(ServerPlacesTest, AServerTakesADeadOnesPlaceWhileTheJobTrainsOrEvaluates) {
  for (const v1::Phase phase : {v1::TRAINING, v1::EVALUATING}) {
    example_.facts.view.set_phase(phase);
    example_.Server(0).end = "it is gone";
    const auto place = registration_.AddServer(Server(50 + phase), example_.events);
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(place->id, 0u);
    EXPECT_EQ(place->kind, Kind::kOfDeadServer);
    EXPECT_EQ(example_.events.back().text, "another server takes the place of server 0, at new:1");
    EXPECT_EQ(registration_.AddServer(Server(50 + phase), example_.events)->kind, Kind::kKnown);
  }
  EXPECT_THAT(RefusalOf(100), HasSubstr("another one has taken its place"));
  example_.Server(0).end = "it is gone";
  example_.facts.view.set_phase(v1::SAVING);
  EXPECT_THAT(RefusalOf(60), HasSubstr("it needs no other server any more"));
}

TEST_F(ServerPlacesTest, AProcessWithALiveServersAddressProvesItsEnd) {
  EXPECT_EQ(registration_.FindEnded(Server(50, "old:1")), 0u);
  EXPECT_EQ(registration_.FindEnded(Server(100, "old:1")), std::nullopt) << "it is that server";
  EXPECT_EQ(registration_.FindEnded(Server(50, "old:2")), std::nullopt);
  v1::RegisterServerRequest bad = Server(50, "old:1");
  bad.set_host(std::string(201, 'h'));
  EXPECT_EQ(registration_.FindEnded(bad), std::nullopt) << "it cannot register";
  example_.facts.view.set_phase(v1::PLACING);
  EXPECT_EQ(registration_.FindEnded(Server(50, "old:1")), std::nullopt);
}

TEST_F(ServerPlacesTest, AReplacedServersLateCallProvesNothing) {
  example_.Server(0).end = "it is gone";
  ASSERT_TRUE(registration_.AddServer(Server(50, "old:1"), example_.events).ok());
  EXPECT_EQ(registration_.FindEnded(Server(100, "old:1")), std::nullopt);
}

TEST_F(ServerPlacesTest, WithOneReplicaNothingIsProved) {
  ExampleFacts example(/*num_servers=*/2);
  EXPECT_EQ(Registration(example.facts).FindEnded(Server(50, "host:1")), std::nullopt);
}

}  // namespace
}  // namespace capstan
