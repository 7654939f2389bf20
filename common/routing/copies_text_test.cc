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
  for (int i = 0; i < faults; ++i) copies.add_faults()->set_shard(i);
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

TEST(CopiesTextTest, CopiesThatWereGivenUpAreNamed) {
  v1::GetStatusReply one;
  for (int i = 0; i < 64; ++i) one.mutable_view()->add_copies();
  for (int i = 0; i < 63; ++i) one.mutable_copies()->add_whole();
  one.mutable_copies()->add_faults()->set_shard(5);
  one.mutable_copies()->set_bytes_to_copy(10);
  EXPECT_EQ(CopiesText(one), "63 of 64 whole; the copy of shard 5 was given up");
  EXPECT_EQ(CopiesText(Status(/*shards=*/4, /*whole=*/2, /*faults=*/2)),
            "2 of 4 whole; the copies of shards 0, 1 were given up");
  EXPECT_EQ(CopiesText(Status(/*shards=*/64, /*whole=*/3, /*faults=*/9)),
            "3 of 64 whole; the copies of 9 shards were given up");
}

}  // namespace
}  // namespace capstan
