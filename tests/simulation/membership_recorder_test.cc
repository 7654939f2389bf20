#include "tests/simulation/membership_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock.h"
#include "common/membership/scripted_coordinator.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MembershipRecorderTest : public testing::Test {
 protected:
  // A view with this worker 0.
  void Show(uint64_t version, uint64_t incarnation, bool is_live, bool is_entering = false,
            int64_t first_step = 0) {
    CallCoordinator(*watched_, v1::HeartbeatRequest(), [](absl::StatusOr<v1::HeartbeatReply>) {});
    v1::JobView view;
    view.set_version(version);
    v1::WorkerInfo& worker = *view.add_workers();
    worker.set_incarnation(incarnation);
    worker.set_is_live(is_live);
    worker.set_is_entering(is_entering);
    worker.set_first_step(first_step);
    v1::HeartbeatReply reply;
    reply.set_view(view.SerializeAsString());
    coordinator_.Of<v1::HeartbeatRequest>().Answer(reply);
  }
  // The new records, such as "DIED 7" or "ENTERED 8 at step 3".
  std::vector<std::string> Written() {
    std::vector<std::string> written;
    for (const v1::HistoryRecord& record : log_.TakeRecords()) {
      const v1::MembershipRecord& member = record.membership();
      std::string text =
          absl::StrCat(v1::MembershipRecord::Event_Name(member.event()), " ", member.incarnation());
      if (member.first_step() > 0) absl::StrAppend(&text, " at step ", member.first_step());
      written.push_back(text);
    }
    return written;
  }

  FakeClock clock_;
  MemoryHistoryLog log_;
  ScriptedCoordinator coordinator_;
  MembershipRecorder recorder_{&clock_, &log_};
  const std::unique_ptr<CoordinatorEndpoint> watched_ = recorder_.Watch(&coordinator_);
};

TEST_F(MembershipRecorderTest, EachChangeIsWrittenOnce) {
  Show(1, 7, /*is_live=*/true);
  EXPECT_THAT(Written(), ElementsAre("ENTERED 7"));
  Show(2, 7, /*is_live=*/true);
  Show(1, 7, /*is_live=*/false);
  EXPECT_THAT(Written(), IsEmpty()) << "nothing new, and an old view";
  Show(3, 7, /*is_live=*/false);
  EXPECT_THAT(Written(), ElementsAre("DIED 7"));
  Show(4, 8, /*is_live=*/true, /*is_entering=*/true);
  EXPECT_THAT(Written(), ElementsAre("JOINING 8"));
  Show(5, 8, /*is_live=*/true, /*is_entering=*/false, /*first_step=*/3);
  EXPECT_THAT(Written(), ElementsAre("ENTERED 8 at step 3"));
}

TEST_F(MembershipRecorderTest, WhatHappenedBetweenTwoViewsIsWrittenToo) {
  Show(1, 7, /*is_live=*/true);
  Show(5, 8, /*is_live=*/true, /*is_entering=*/true);
  Show(9, 8, /*is_live=*/false);
  EXPECT_THAT(Written(), ElementsAre("ENTERED 7", "DIED 7", "JOINING 8", "DIED 8"));
}

TEST_F(MembershipRecorderTest, WhoSaysThatItLeavesHasLeft) {
  Show(1, 7, /*is_live=*/true);
  v1::HeartbeatRequest last;
  last.set_incarnation(7);
  last.set_is_leaving(true);
  CallCoordinator(*watched_, last, [](absl::StatusOr<v1::HeartbeatReply>) {});
  coordinator_.Of<v1::HeartbeatRequest>().Answer(v1::HeartbeatReply());
  Show(2, 7, /*is_live=*/false);
  EXPECT_THAT(Written(), ElementsAre("ENTERED 7", "LEFT 7"));
}

}  // namespace
}  // namespace capstan
