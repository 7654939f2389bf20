#include "server/slice/push_receipts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;

class PushReceiptsTest : public testing::Test {
 protected:
  // The reply will be NAME and its code.
  void Park(int64_t step, uint32_t worker, const std::string& name) {
    receipts_.Park(
        Step(step), WorkerId(worker),
        [this, name](const ExchangeReply& reply) {
          replies_.push_back(name + " " + absl::StatusCodeToString(reply.status.code()));
        },
        &released_);
    Run();
  }
  void Run() {
    for (auto& [done, reply] : released_) done(std::move(reply));
    released_.clear();
  }

  PushReceipts receipts_{"slice 0 of table w"};
  ReleasedReplies released_;
  std::vector<std::string> replies_;
};

TEST_F(PushReceiptsTest, AreDueWhenTheirPushIsApplied) {
  Park(3, 0, "a");
  Park(4, 0, "b");
  receipts_.Answer(Step(3), WorkerId(0), ExchangeReply(), &released_);
  receipts_.Answer(Step(3), WorkerId(1), ExchangeReply(), &released_);  // nobody waits
  Run();
  EXPECT_THAT(replies_, ElementsAre("a OK"));
  EXPECT_EQ(receipts_.size(), 1);
}

TEST_F(PushReceiptsTest, ARepeatedPushTakesTheOldOnesPlace) {
  Park(3, 0, "a");
  Park(3, 0, "b");
  EXPECT_THAT(replies_, ElementsAre("a UNAVAILABLE"));
  receipts_.Answer(Step(3), WorkerId(0), ExchangeReply(), &released_);
  Run();
  EXPECT_THAT(replies_, ElementsAre("a UNAVAILABLE", "b OK"));
}

TEST_F(PushReceiptsTest, AProcessThatIsNoMemberGetsAnError) {
  Park(3, 0, "a");
  Park(3, 1, "b");
  receipts_.Refuse(WorkerId(0), &released_);
  Run();
  EXPECT_THAT(replies_, ElementsAre("a FAILED_PRECONDITION"));
  receipts_.Cancel(absl::UnavailableError("the server ends"), &released_);
  Run();
  EXPECT_THAT(replies_, ElementsAre("a FAILED_PRECONDITION", "b UNAVAILABLE"));
  EXPECT_EQ(receipts_.size(), 0);
}

}  // namespace
}  // namespace capstan
