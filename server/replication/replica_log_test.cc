#include "server/replication/replica_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ReplicaLogTest : public testing::Test {
 protected:
  uint64_t Append() { return log_.Append(v1::ReplicaChange(), Payload()); }
  // A reply that is held; Released has its number once it is due.
  void Hold(uint64_t number) {
    ReleasedReplies replies;
    ExchangeReply reply;
    reply.version = number;
    replies.emplace_back([](const ExchangeReply&) {}, std::move(reply));
    log_.Hold(std::move(replies));
  }
  std::vector<uint64_t> Acknowledge(uint64_t sequence) {
    ReleasedReplies released;
    log_.Acknowledge(sequence, &released);
    return NumbersOf(released);
  }
  static std::vector<uint64_t> NumbersOf(const ReleasedReplies& replies) {
    std::vector<uint64_t> numbers;
    for (const auto& [done, reply] : replies) numbers.push_back(reply.version);
    return numbers;
  }
  // The sequences of all that is to be sent.
  std::vector<uint64_t> TakeAll() {
    std::vector<uint64_t> sequences;
    while (const std::optional<ReplicaLog::Record> record = log_.TakeUnsent()) {
      sequences.push_back(record->sequence);
    }
    return sequences;
  }

  ReplicaLog log_;
};

TEST_F(ReplicaLogTest, ChangesAreSentInOrderAndStayUntilTheyAreAcknowledged) {
  for (int i = 0; i < 3; ++i) Append();
  EXPECT_THAT(TakeAll(), ElementsAre(1, 2, 3));
  EXPECT_THAT(TakeAll(), IsEmpty());
  Acknowledge(1);
  EXPECT_EQ(log_.unacknowledged(), 2u);
  log_.Rewind();
  Append();
  EXPECT_THAT(TakeAll(), ElementsAre(2, 3, 4));
}

TEST_F(ReplicaLogTest, RepliesAreDueWithTheChangesBeforeThem) {
  Append();
  Hold(10);
  Append();
  Hold(20);
  EXPECT_EQ(log_.held(), 2u);
  TakeAll();
  EXPECT_THAT(Acknowledge(1), ElementsAre(10));
  EXPECT_THAT(Acknowledge(1), IsEmpty()) << "again";
  EXPECT_THAT(Acknowledge(2), ElementsAre(20));
  EXPECT_EQ(log_.held(), 0u);
}

TEST_F(ReplicaLogTest, AnAcknowledgementOfMoreThanThereIsCountsAsOneOfAll) {
  Append();
  Hold(10);
  EXPECT_THAT(Acknowledge(99), ElementsAre(10));
  EXPECT_EQ(log_.acknowledged(), 1u);
  Append();
  Hold(20);
  EXPECT_THAT(Acknowledge(1), IsEmpty());
}

TEST_F(ReplicaLogTest, WhatIsSentAgainIsNotNew) {
  EXPECT_FALSE(log_.has_new());
  Append();
  EXPECT_TRUE(log_.has_new());
  TakeAll();
  log_.Rewind();
  EXPECT_TRUE(log_.has_unsent());
  EXPECT_FALSE(log_.has_new());
}

TEST_F(ReplicaLogTest, ChangesOfAMomentButTheLastSayThatMoreComes) {
  const auto take = [this] {
    std::vector<bool> have_more;
    while (const std::optional<ReplicaLog::Record> record = log_.TakeUnsent()) {
      v1::ReplicaChange change;
      EXPECT_TRUE(change.ParseFromString(record->change));
      have_more.push_back(change.has_more());
    }
    return have_more;
  };
  Append();
  log_.EndMoment();
  for (int i = 0; i < 3; ++i) Append();
  log_.EndMoment();
  log_.EndMoment();
  EXPECT_THAT(take(), ElementsAre(false, true, true, false));
  Append();
  log_.EndMoment();
  EXPECT_THAT(take(), ElementsAre(false));
  Acknowledge(5);
  EXPECT_EQ(log_.unacknowledged_bytes(), 0u);
}

TEST_F(ReplicaLogTest, GivenUpNothingIsHeld) {
  Append();
  Hold(10);
  Hold(11);
  ReleasedReplies released;
  log_.ReleaseAll(&released);
  EXPECT_THAT(NumbersOf(released), ElementsAre(10, 11));
  EXPECT_THAT(Acknowledge(1), IsEmpty());
}

}  // namespace
}  // namespace capstan
