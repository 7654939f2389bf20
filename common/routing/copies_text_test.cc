#include "common/routing/copies_text.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace capstan {
namespace {

// The status of a job with these shards.
v1::GetStatusReply Status(int shards, int whole, int faults = 0) {
  v1::GetStatusReply status;
  for (int i = 0; i < shards; ++i) status.mutable_view()->add_copies();
  v1::CopyReport& copies = *status.mutable_copies();
  for (int i = 0; i < whole; ++i) copies.add_whole()->set_shard(faults + i);
  for (int i = 0; i < faults; ++i) {
    copies.add_faults()->set_shard(i);
    status.mutable_view()->mutable_copies(i)->set_fault("it differs");
  }
  for (int i = 0; i < whole; ++i) {
    status.mutable_view()->mutable_copies(faults + i)->set_is_whole(true);
  }
  return status;
}

TEST(CopiesTextTest, AJobWithoutCopiesHasNone) {
  EXPECT_EQ(CopiesText(v1::GetStatusReply()), "");
  EXPECT_EQ(GivenUpText(v1::CopyReport()), "");
}

TEST(CopiesTextTest, WholeCopiesAreEqualAtAVersionOnceThatWasLookedAt) {
  v1::GetStatusReply status = Status(/*shards=*/64, /*whole=*/64);
  EXPECT_EQ(CopiesText(status), "64 of 64 whole");
  status.mutable_copies()->set_equal_at_version(812);
  EXPECT_EQ(CopiesText(status), "64 of 64 whole, equal at version 812");
}

TEST(CopiesTextTest, CopiesThatAreMadeSayHowFar) {
  v1::GetStatusReply status = Status(/*shards=*/64, /*whole=*/12);
  status.mutable_copies()->set_equal_at_version(3);
  EXPECT_EQ(CopiesText(status), "12 of 64 whole");
  status.mutable_copies()->set_bytes_to_copy(1'200'000'000);
  status.mutable_copies()->set_bytes_copied(310'000'000);
  EXPECT_EQ(CopiesText(status), "12 of 64 whole, 0.31 of 1.20 GB copied");
  status.mutable_copies()->set_bytes_to_copy(5000);
  status.mutable_copies()->set_bytes_copied(0);
  EXPECT_EQ(CopiesText(status), "12 of 64 whole, 0.00 of 5.00 kB copied");
}

TEST(CopiesTextTest, AfterALossTheOnlyServerMakesNone) {
  v1::GetStatusReply status = Status(/*shards=*/2, /*whole=*/0);
  status.mutable_copies()->set_bytes_to_copy(5000);
  status.mutable_copies()->set_bytes_copied(5000);
  for (v1::ShardCopy& copy : *status.mutable_view()->mutable_copies()) {
    copy.set_fault("server 1 was lost");
  }
  EXPECT_EQ(CopiesText(status), "0 of 2 whole; the others wait for another server");
}

TEST(CopiesTextTest, CopiesThatWereGivenUpAreNamed) {
  v1::GetStatusReply one;
  for (int i = 0; i < 64; ++i) one.mutable_view()->add_copies();
  for (int i = 0; i < 63; ++i) {
    one.mutable_view()->mutable_copies(i)->set_is_whole(true);
    one.mutable_copies()->add_whole();
  }
  one.mutable_view()->mutable_copies(63)->set_fault("it differs");
  one.mutable_copies()->add_faults()->set_shard(5);
  one.mutable_copies()->set_bytes_to_copy(10);
  EXPECT_EQ(CopiesText(one), "63 of 64 whole; the copy of shard 5 was given up");
  EXPECT_EQ(CopiesText(Status(/*shards=*/4, /*whole=*/2, /*faults=*/2)),
            "2 of 4 whole; the copies of shards 0, 1 were given up");
  EXPECT_EQ(CopiesText(Status(/*shards=*/64, /*whole=*/3, /*faults=*/9)),
            "3 of 64 whole; the copies of 9 shards were given up");
}

TEST(CopiesTextTest, CopiesThatDoNotAcknowledgeAreNamedOnceForEachPairOfServers) {
  v1::GetStatusReply status = Status(/*shards=*/4, /*whole=*/4);
  for (int i = 0; i < 4; ++i) {
    status.mutable_view()->add_server_of_shard(i % 2);
    status.mutable_view()->mutable_copies(i)->set_server(1 - i % 2);
    status.mutable_view()->mutable_copies(i)->set_number(3);
  }
  const auto add = [&status](uint32_t shard, double seconds, uint64_t number = 3) {
    v1::SilentCopy& silent = *status.mutable_copies()->add_silent();
    silent.set_shard(shard);
    silent.set_number(number);
    silent.set_seconds(seconds);
  };
  add(0, 4.9), add(2, 3), add(1, 2.2);
  add(1, 100, /*number=*/2), add(UINT32_MAX, 100);
  EXPECT_EQ(CopiesText(status),
            "4 of 4 whole; "
            "server 0 has acknowledged no change of 1 shard of server 1 for 2 s, and replies may "
            "wait; "
            "server 1 has acknowledged no change of 2 shards of server 0 for 5 s, and replies may "
            "wait");
}

}  // namespace
}  // namespace capstan
