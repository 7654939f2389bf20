#include "server/coordinator/plans/entering_workers.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

v1::HeartbeatRequest Next(uint32_t server, uint32_t worker, uint64_t incarnation, int64_t step) {
  v1::HeartbeatRequest heartbeat = HeartbeatOf({v1::HeartbeatRequest::SERVER, server});
  v1::NextStep& next = *heartbeat.add_next_steps();
  next.set_worker(worker);
  next.set_incarnation(incarnation);
  next.set_step(step);
  return heartbeat;
}

class EnteringWorkersTest : public testing::Test {
 protected:
  bool Settle() { return entering_.Settle(example_.facts, example_.events); }
  void Report(const v1::HeartbeatRequest& heartbeat) {
    EXPECT_TRUE(entering_.Report(heartbeat).ok());
  }

  ExampleFacts example_{/*num_servers=*/2, /*num_workers=*/4};
  EnteringWorkers entering_{example_.facts.members};
};

TEST_F(EnteringWorkersTest, AWorkerBeginsBeyondWhatAnyServerHasOfItsPlace) {
  entering_.Await(3);
  EXPECT_TRUE(example_.Worker(3).is_entering);
  Report(Next(0, 3, 203, 5));
  Report(Next(0, 3, 203, 5));
  EXPECT_FALSE(Settle()) << "one server has reported";
  Report(Next(1, 3, 203, 4));
  EXPECT_TRUE(Settle());
  EXPECT_FALSE(example_.Worker(3).is_entering);
  EXPECT_EQ(example_.Worker(3).first_step, Step(5));
  EXPECT_EQ(example_.facts.members.latest_first_step(), Step(5));
  ASSERT_EQ(example_.events.size(), 1u);
  EXPECT_EQ(example_.events[0].text, "worker 3 enters at step 5");
  EXPECT_EQ(example_.events[0].step, 5);
  EXPECT_FALSE(Settle()) << "once";
}

TEST_F(EnteringWorkersTest, InAHeldPlaceAWorkerDoesTheFirstStepThatAnyServerLacks) {
  example_.Worker(3).holds_place = true;
  example_.Worker(3).lost_at = example_.clock.Now();
  entering_.Await(3);
  example_.clock.Advance(absl::Milliseconds(2'340));
  Report(Next(0, 3, 203, 6));
  EXPECT_FALSE(Settle()) << "one server has reported";
  EXPECT_TRUE(example_.Worker(3).holds_place) << "it may die before it has entered";
  Report(Next(1, 3, 203, 5));
  EXPECT_TRUE(Settle());
  EXPECT_FALSE(example_.Worker(3).is_entering);
  EXPECT_FALSE(example_.Worker(3).holds_place);
  EXPECT_EQ(example_.Worker(3).first_step, Step(5));
  ASSERT_EQ(example_.events.size(), 1u);
  EXPECT_EQ(example_.events[0].text,
            "worker 3 was lost at step 5 and replaced after 2.3 s; nothing was done twice");
  EXPECT_EQ(example_.events[0].step, 5);
  v1::GetStatusReply status;
  entering_.WriteToStatus(status);
  ASSERT_EQ(status.place_replacements_size(), 1);
  EXPECT_EQ(status.place_replacements(0).text(), example_.events[0].text);
  EXPECT_EQ(status.place_replacements(0).worker(), 3u);
  EXPECT_EQ(status.place_replacements(0).step(), 5);
  EXPECT_NEAR(status.place_replacements(0).seconds(), 2.3, 0.05);
}

TEST_F(EnteringWorkersTest, TheLatestReplacementsOfHeldPlacesAreTold) {
  for (int64_t step = 1; step <= 18; ++step) {
    example_.Worker(3).holds_place = step != 17;
    entering_.Await(3);
    for (const uint32_t server : {0, 1}) Report(Next(server, 3, 203, step));
    EXPECT_TRUE(Settle());
  }
  v1::GetStatusReply status;
  entering_.WriteToStatus(status);
  ASSERT_EQ(status.place_replacements_size(), 16);
  EXPECT_EQ(status.place_replacements(0).step(), 2);
  EXPECT_EQ(status.place_replacements(15).step(), 18) << "17 was not held";
}

TEST_F(EnteringWorkersTest, AServerWithoutSlicesDoesNotSayWhereAWorkerInAHeldPlaceBegins) {
  example_.Worker(3).holds_place = true;
  entering_.Await(3);
  Report(Next(0, 3, 203, 5));
  Report(Next(1, 3, 203, kLargestStep.value()));
  EXPECT_TRUE(Settle());
  EXPECT_EQ(example_.Worker(3).first_step, Step(5));
  EXPECT_EQ(example_.facts.members.latest_first_step(), Step(5));
}

TEST_F(EnteringWorkersTest, ReportsOfAnotherIncarnationDoNotCount) {
  entering_.Await(3);
  Report(Next(0, 3, 203, 5));
  entering_.Forget(3);
  EXPECT_FALSE(example_.Worker(3).is_entering);
  example_.Worker(3).incarnation = Incarnation(8);
  entering_.Await(3);
  for (const uint32_t server : {0, 1}) {
    Report(Next(server, 3, 203, 9));
    Report(Next(server, 2, 8, 9));
  }
  EXPECT_FALSE(Settle());
  for (const uint32_t server : {0, 1}) Report(Next(server, 3, 8, 6));
  EXPECT_TRUE(Settle());
  EXPECT_EQ(example_.Worker(3).first_step, Step(6));
}

TEST_F(EnteringWorkersTest, AfterTheLossOfAServerAllLiveOnesReportAgain) {
  entering_.Await(3);
  Report(Next(0, 3, 203, 9));
  example_.Server(0).end = "it is gone";
  entering_.OnServerLost({0, /*moves_shards=*/true}, example_.facts);
  EXPECT_FALSE(Settle()) << "the report was of a dead server";
  Report(Next(1, 3, 203, 6));
  EXPECT_TRUE(Settle());
  EXPECT_EQ(example_.Worker(3).first_step, Step(6));
}

TEST_F(EnteringWorkersTest, AServerInALostOnesPlaceIsAwaited) {
  entering_.Await(3);
  for (const uint32_t server : {0, 1}) Report(Next(server, 3, 203, 9));
  entering_.OnServerLost({0, /*moves_shards=*/false}, example_.facts);
  Report(Next(1, 3, 203, 6));
  EXPECT_FALSE(Settle()) << "the report of server 0 was its predecessor's";
  Report(Next(0, 3, 203, 0));
  EXPECT_TRUE(Settle());
  EXPECT_EQ(example_.Worker(3).first_step, Step(6));
}

}  // namespace
}  // namespace capstan
