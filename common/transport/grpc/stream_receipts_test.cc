#include "common/transport/grpc/stream_receipts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/base/random.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(StreamReceiptsTest, WhatHasArrivedIsToldAloneWhenNothingElseIsWritten) {
  StreamReceipts receipts;
  EXPECT_FALSE(receipts.IsDue(std::nullopt)) << "nothing has arrived";
  receipts.Receive(1);
  EXPECT_TRUE(receipts.IsDue(std::nullopt));
  EXPECT_EQ(receipts.Report(), 1u);
  EXPECT_FALSE(receipts.IsDue(std::nullopt)) << "told";
  receipts.Receive(10);
  EXPECT_EQ(receipts.Report(), 11u) << "since the stream began";
}

TEST(StreamReceiptsTest, AReceiptRidesOnASmallPayloadAndGoesAheadOfALargeOne) {
  StreamReceipts receipts;
  receipts.Receive(5);
  EXPECT_FALSE(receipts.IsDue(0));
  EXPECT_FALSE(receipts.IsDue(StreamReceipts::kRideBytes));
  EXPECT_TRUE(receipts.IsDue(StreamReceipts::kRideBytes + 1));
}

TEST(StreamReceiptsTest, WrongReceiptsAreRefusedAndChangeNothing) {
  StreamReceipts receipts;
  receipts.Write(100, [] {});
  receipts.Write(100, [] {});
  EXPECT_EQ(receipts.Acknowledge(100)->size(), 1u);
  const absl::Status beyond = receipts.Acknowledge(201).status();
  EXPECT_TRUE(absl::IsInvalidArgument(beyond));
  EXPECT_THAT(beyond.message(), HasSubstr("expected from 100 bytes, as said before, to 200"));
  EXPECT_THAT(beyond.message(), HasSubstr("got 201"));
  EXPECT_TRUE(absl::IsInvalidArgument(receipts.Acknowledge(99).status())) << "going back";
  EXPECT_TRUE(absl::IsInvalidArgument(receipts.Acknowledge(~uint64_t{0}).status()));
  EXPECT_EQ(receipts.Acknowledge(200)->size(), 1u);
}

TEST(StreamReceiptsTest, WhatCountsAsDeliveredMayStillBeAcknowledged) {
  StreamReceipts receipts;
  receipts.Write(100, [] {});
  EXPECT_EQ(receipts.AcknowledgeAll().size(), 1u);
  receipts.Write(100, [] {});
  EXPECT_EQ(receipts.Acknowledge(100)->size(), 0u);
  EXPECT_EQ(receipts.Acknowledge(200)->size(), 1u);
}

TEST(StreamReceiptsTest, TwoEndsAgreeOnWhatHasArrivedWhole) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    StreamReceipts sender, receiver;
    std::vector<int> told;
    std::vector<uint64_t> on_the_way;
    int sent = 0, arrived = 0;
    for (int i = 0; i < 300; ++i) {
      if (on_the_way.empty() || random.Bernoulli(0.5)) {
        on_the_way.push_back(1 + random.UniformInt(1000));
        sender.Write(on_the_way.back(), [&told, sent] { told.push_back(sent); });
        ++sent;
      } else {
        receiver.Receive(on_the_way.front());
        on_the_way.erase(on_the_way.begin());
        ++arrived;
      }
      if (!receiver.IsDue(std::nullopt) || random.Bernoulli(0.7)) continue;
      RunAll(*sender.Acknowledge(receiver.Report()));
      ASSERT_EQ(told.size(), static_cast<size_t>(arrived));
      ASSERT_EQ(told.back(), arrived - 1);
    }
  }
}

TEST(StreamReceiptsTest, AReceiptWithinAPayloadTellsOfThoseBeforeIt) {
  StreamReceipts receipts;
  std::vector<int> told;
  receipts.Write(10, [&] { told.push_back(0); });
  receipts.Write(10, [&] { told.push_back(1); });
  RunAll(*receipts.Acknowledge(9));
  EXPECT_THAT(told, IsEmpty());
  RunAll(*receipts.Acknowledge(19));
  EXPECT_THAT(told, ElementsAre(0));
}

}  // namespace
}  // namespace capstan
