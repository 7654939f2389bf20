#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "common/base/real_clock.h"
#include "deploy/cli/commands.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(SetCommandTest, OnlyTheFlagsThatAreGivenAreChanged) {
  const auto staleness = ReadConsistencyChange({{"staleness", "4"}, {"coordinator", "host:1"}});
  ASSERT_TRUE(staleness.ok()) << staleness.status();
  EXPECT_EQ(staleness->change().staleness(), 4);
  EXPECT_FALSE(staleness->change().has_mode());
  const auto mode = ReadConsistencyChange({{"consistency", "async"}});
  ASSERT_TRUE(mode.ok()) << mode.status();
  EXPECT_EQ(mode->change().mode(), v1::ConsistencySpec::ASYNC);
  EXPECT_FALSE(mode->change().has_staleness());
  const auto tables = ReadConsistencyChange({{"table_staleness", "fc1.weight:2"}});
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ(tables->change().table_staleness(0).table(), "fc1.weight");
  EXPECT_FALSE(tables->clear_table_staleness());
}

TEST(SetCommandTest, AnEmptyListTakesTheStalenessOfTablesBack) {
  const auto alone = ReadConsistencyChange({{"table_staleness", ""}});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_TRUE(alone->clear_table_staleness());
  const auto both = ReadConsistencyChange({{"table_staleness", ""}, {"staleness", "4"}});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_TRUE(both->clear_table_staleness());
  EXPECT_EQ(both->change().staleness(), 4);
  EXPECT_FALSE(ReadConsistencyChange({{"staleness", "4"}})->clear_table_staleness());
}

TEST(SetCommandTest, BadAndMissingFlagsAreNamed) {
  EXPECT_THAT(std::string(ReadConsistencyChange({{"consistency", "eventual"}}).status().message()),
              HasSubstr("flag --consistency: expected one of bsp, ssp, async"));
  EXPECT_THAT(std::string(ReadConsistencyChange({}).status().message()),
              HasSubstr("expected --consistency, --staleness or --table_staleness"));
}

TEST(SetCommandTest, TheReplySaysFromWhichStepOn) {
  v1::SetConsistencyReply reply;
  reply.mutable_period()->set_first_step(120);
  reply.mutable_period()->mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  reply.mutable_period()->mutable_consistency()->set_staleness(4);
  EXPECT_EQ(FormatConsistencyReply(reply), "from step 120 on: ssp, staleness 4\n");
  reply.set_steps_total(400);
  EXPECT_EQ(FormatConsistencyReply(reply), "from step 120 of 400 on: ssp, staleness 4\n");
  reply.set_steps_total(120);
  EXPECT_THAT(FormatConsistencyReply(reply),
              HasSubstr("on: ssp, staleness 4\nThat comes too late"));
}

TEST(SetCommandTest, UnreachableCoordinatorIsNamed) {
  RealClock clock;
  std::ostringstream out;
  v1::SetConsistencyRequest request;
  request.mutable_change()->set_staleness(1);
  const absl::Status status = SetCommand("127.0.0.1:1", request, NoSecurity(), &clock, out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1"));
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace capstan
