#include "common/history/check/check_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "common/history/history_builder.h"

namespace capstan {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr auto kBsp = v1::ContractRecord::BSP;
constexpr auto kSsp = v1::ContractRecord::SSP;
constexpr auto kAsync = v1::ContractRecord::ASYNC;
constexpr auto kJoining = v1::MembershipRecord::JOINING;
constexpr auto kEntered = v1::MembershipRecord::ENTERED;
constexpr auto kDied = v1::MembershipRecord::DIED;
constexpr auto kLeft = v1::MembershipRecord::LEFT;

std::string ViolationOf(const HistoryBuilder& builder) {
  return CheckHistory(builder.Build()).value().violation;
}

std::string ViolationWithoutValues(HistoryBuilder builder) {
  builder.records()[0].mutable_header()->set_has_test_values(false);
  return ViolationOf(builder);
}

// Both workers' first pulls.
HistoryBuilder Started(v1::ContractRecord::Mode mode, int64_t staleness) {
  HistoryBuilder builder(mode, staleness);
  builder.Ask(0, 100, -1, 0, 10).Answer(12, 0, 0, {});
  builder.Ask(1, 101, -1, 0, 10).Answer(12, 0, 0, {});
  return builder;
}

TEST(CheckHistoryTest, ACorrectBspHistoryIsAccepted) {
  HistoryBuilder builder = Started(kBsp, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(42, 1, 1, {{0, 0}, {1, 0}}, /*is_mean=*/true);
  builder.Ask(1, 101, 0, 1, 40).Answer(42, 1, 1, {{0, 0}, {1, 0}}, /*is_mean=*/true).End(50);
  const HistoryVerdict verdict = CheckHistory(builder.Build()).value();
  EXPECT_EQ(verdict.violation, "");
  EXPECT_EQ(verdict.exchanges, 4);
  EXPECT_EQ(verdict.pulls, 4);
  EXPECT_EQ(verdict.slices, 1);
  EXPECT_EQ(verdict.incarnations, 2);
}

TEST(CheckHistoryTest, ACorrectSspHistoryIsAccepted) {
  HistoryBuilder builder = Started(kSsp, 1);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}});
  builder.Ask(1, 101, 0, 1, 30).Answer(32, 2, 1, {{0, 0}, {1, 0}});
  builder.Ask(0, 100, 1, 2, 40).Answer(42, 3, 1, {{0, 0}, {1, 0}, {0, 1}}).End(50);
  EXPECT_EQ(ViolationOf(builder), "");
}

// Counts of lost and doubled updates.
std::vector<size_t> CountsOf(const HistoryBuilder& builder) {
  const HistoryVerdict verdict = CheckHistory(builder.Build()).value();
  return {verdict.lost_updates, verdict.doubled_updates};
}

TEST(CheckHistoryTest, ChangesTellTheSameAsValues) {
  HistoryBuilder good = Started(kSsp, 1);
  good.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}});
  good.Ask(1, 101, 0, 1, 30).Answer(32, 2, 1, {{0, 0}, {1, 0}});
  good.Ask(0, 100, 1, 2, 40).Answer(42, 3, 1, {{0, 0}, {1, 0}, {0, 1}});
  HistoryBuilder lost = good;
  lost.Ask(1, 101, 1, 2, 50).Answer(52, 4, 2, {{0, 0}, {1, 0}, {1, 1}}).End(60);
  HistoryBuilder doubled = good;
  doubled.Ask(1, 101, 1, 2, 50).Answer(52, 5, 2, {{0, 0}, {1, 0}, {1, 0}, {0, 1}, {1, 1}}).End(60);
  good.End(60);
  EXPECT_EQ(ViolationOf(good.UseChanges()), "");
  EXPECT_THAT(ViolationOf(lost), HasSubstr("lacks the update of worker 0 at step 1"));
  EXPECT_EQ(ViolationOf(HistoryBuilder(lost).UseChanges()), ViolationOf(lost));
  EXPECT_EQ(CountsOf(HistoryBuilder(lost).UseChanges()), (std::vector<size_t>{1, 0}));
  EXPECT_THAT(ViolationOf(doubled), HasSubstr("contains the update of worker 1 at step 0 2 times"));
  EXPECT_EQ(ViolationOf(HistoryBuilder(doubled).UseChanges()), ViolationOf(doubled));
  EXPECT_EQ(CountsOf(HistoryBuilder(doubled).UseChanges()), (std::vector<size_t>{0, 1}));
}

TEST(CheckHistoryTest, ChangesFollowOneAnotherAsTheyWereAnswered) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(30, 1, 0, {{0, 0}});
  builder.Ask(0, 100, -1, 0, 22).Answer(24, 0, 0, {});
  // The later request is answered first.
  std::rotate(builder.records().end() - 3, builder.records().end() - 2, builder.records().end());
  builder.Ask(0, 100, -1, 1, 40).Answer(42, 1, 0, {{0, 0}}).End(50);
  EXPECT_EQ(ViolationOf(builder.UseChanges()), "");
}

// With divisors 4 and 3, and with 4 twice, which looks like 2.
TEST(CheckHistoryTest, AnUpdateThatWasAppliedInTwoPartsIsDoubled) {
  for (const float second : {3.0f, 4.0f}) {
    HistoryBuilder builder = Started(kAsync, 0);
    builder.records()[0].mutable_header()->set_update_scale(v1::HistoryHeader::STALENESS);
    builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}});
    v1::ExchangeEnded& ended = *builder.records().back().mutable_ended();
    ended.set_learning_rate_divisor(4);
    ended.set_values(0, kTestUpdate / 4);
    builder.Ask(0, 100, -1, 1, 30).Answer(32, 2, 0, {{0, 0}});
    builder.records().back().mutable_ended()->set_values(0, kTestUpdate / 4 + kTestUpdate / second);
    builder.Ask(0, 100, -1, 1, 40).Answer(42, 2, 0, {{0, 0}});
    builder.records().back().mutable_ended()->set_values(0, kTestUpdate / 4 + kTestUpdate / second);
    EXPECT_EQ(CountsOf(builder.End(50).UseChanges()), (std::vector<size_t>{0, 1})) << second;
  }
}

// A loss that many pulls and several rules show is one.
TEST(CheckHistoryTest, EachUpdateIsCountedOnce) {
  HistoryBuilder builder = Started(kSsp, 1);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}});
  builder.Ask(1, 101, 0, 1, 30).Answer(32, 1, 1, {{1, 0}});
  builder.Ask(0, 100, 1, 2, 40).Answer(42, 2, 1, {{1, 0}, {0, 1}}).End(50);
  const HistoryVerdict verdict = CheckHistory(builder.Build()).value();
  EXPECT_GT(verdict.violations, 3u);
  EXPECT_EQ(CountsOf(builder), (std::vector<size_t>{1, 0}));
}

TEST(CheckHistoryTest, AnUpdateThatAPullDidNotAwaitIsNotLost) {
  HistoryBuilder builder = Started(kSsp, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}});
  builder.Ask(1, 101, 0, 1, 30).Answer(32, 2, 1, {{0, 0}, {1, 0}}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("staleness bound"));
  EXPECT_EQ(CountsOf(builder), (std::vector<size_t>{0, 0}));
}

TEST(CheckHistoryTest, WithoutValuesVersionsTellHowManyUpdatesWereLostOrDoubled) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.records()[0].mutable_header()->set_has_test_values(false);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {});
  builder.Ask(1, 101, 0, 1, 30).Answer(32, 2, 1, {});
  HistoryBuilder lost = builder;
  lost.Ask(0, 100, -1, 1, 40).Answer(42, 0, 1, {}).End(50);
  EXPECT_EQ(CountsOf(lost), (std::vector<size_t>{2, 0}));
  builder.Ask(0, 100, -1, 1, 40).Answer(42, 5, 1, {}).End(50);
  EXPECT_EQ(CountsOf(builder), (std::vector<size_t>{0, 3}));
}

TEST(CheckHistoryTest, APullPastItsStalenessBoundIsFound) {
  HistoryBuilder builder = Started(kSsp, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}}).End(50);
  const std::string violation = ViolationWithoutValues(builder);
  EXPECT_THAT(violation, StartsWith("staleness bound: a pull of step 1 with staleness 0 was "
                                    "answered at min_step 0, expected 1 or more"));
  EXPECT_THAT(violation, HasSubstr("\n  push of step 0, pull of step 1 by worker 0 "
                                   "(incarnation 100), slice 0 of table 0, 0.000010 s to "
                                   "0.000012 s: version 1, min_step 0"));
}

TEST(CheckHistoryTest, AMissingUpdateIsFoundWithItsPush) {
  HistoryBuilder builder = Started(kSsp, 0);
  builder.Ask(1, 101, 0, 1, 20).Answer(42, 2, 1, {{0, 0}, {1, 0}});
  builder.Ask(0, 100, 0, 1, 30).Answer(42, 2, 1, {{0, 0}}).End(50);
  const std::string violation = ViolationOf(builder);
  EXPECT_THAT(violation, StartsWith("staleness bound: the pull of step 1 by worker 0 lacks the "
                                    "update of worker 1 at step 0"));
  EXPECT_THAT(violation, HasSubstr("\n  push of step 0, pull of step 1 by worker 1"));
}

TEST(CheckHistoryTest, ABspPullWithAnUpdateOfItsOwnStepIsFound) {
  HistoryBuilder builder = Started(kBsp, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(42, 1, 1, {{0, 0}, {1, 0}}, /*is_mean=*/true);
  builder.Ask(1, 101, 0, 1, 40).Answer(42, 1, 1, {{0, 0}, {1, 0}}, /*is_mean=*/true);
  builder.Ask(1, 101, 1, 2, 44);
  builder.Ask(0, 100, -1, 1, 46).Answer(48, 2, 1, {{0, 0}, {1, 0}, {1, 1}}, /*is_mean=*/true);
  EXPECT_THAT(ViolationOf(builder.End(50)),
              StartsWith("isolation: the pull of step 1 by worker 0 contains the update of worker "
                         "1 at step 1"));
}

TEST(CheckHistoryTest, BspHidesAnAcknowledgedUpdateUntilItsStepIsComplete) {
  HistoryBuilder builder(kBsp, 0);
  builder.Ask(0, 100, -1, 0, 10).Answer(12, 0, 0, {});
  builder.Ask(0, 100, 0, 0, 14);
  builder.records().back().mutable_began()->set_has_pull(false);
  builder.Answer(16, 0, 0, {});
  builder.Ask(1, 101, -1, 0, 20).Answer(22, 0, 0, {}).End(50);
  EXPECT_EQ(ViolationOf(builder), "");
}

TEST(CheckHistoryTest, ABspStepThatWasAppliedInTwoPartsIsFound) {
  HistoryBuilder builder = Started(kBsp, 0);
  builder.Ask(1, 101, 0, 1, 20);
  builder.Ask(0, 100, 0, 1, 20).Answer(42, 2, 1, {{0, 0}, {1, 0}}, /*is_mean=*/false).End(43);
  EXPECT_THAT(ViolationOf(builder), StartsWith("one sum a step: the pull of step 1 by worker 0 "
                                               "contains the update of worker 0 at step 0 "
                                               "divided by 1, expected by 2"));
}

TEST(CheckHistoryTest, AnUpdateAppliedTwiceIsFound) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 2, 0, {{0, 0}, {0, 0}}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("exactly once"));
}

TEST(CheckHistoryTest, AnUpdateThatNobodySentIsFound) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}});
  builder.Ask(1, 101, 0, 1, 30).Answer(32, 2, 1, {{1, 0}, {0, 0}});
  builder.Ask(1, 101, -1, 1, 33).Answer(34, 2, 1, {{1, 0}, {1, 3}, {0, 0}}).End(50);
  EXPECT_THAT(ViolationOf(builder), HasSubstr("no phantoms"));
}

TEST(CheckHistoryTest, AWorkerMustSeeItsOwnUpdates) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 0, 0, {}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("read-my-writes: the pull of step 1 by worker 0 "
                                               "lacks its own update of step 0"));
}

TEST(CheckHistoryTest, AnAcknowledgedUpdateMustNotBeLost) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}});
  builder.Ask(1, 101, -1, 0, 30).Answer(32, 0, 0, {}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("exactly once"));
}

TEST(CheckHistoryTest, ValuesMustNotGoBack) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(1, 101, 0, 1, 20);  // stays open
  builder.Ask(0, 100, -1, 0, 30).Answer(32, 1, 0, {{1, 0}});
  builder.Ask(0, 100, -1, 0, 40).Answer(42, 0, 0, {}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("monotonic reads"));
}

TEST(CheckHistoryTest, MinStepMustNotGoBack) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}});
  builder.Ask(1, 101, 0, 1, 23).Answer(24, 2, 1, {{0, 0}, {1, 0}});
  builder.Ask(1, 101, -1, 1, 40).Answer(42, 2, 0, {{0, 0}, {1, 0}}).End(50);
  EXPECT_THAT(ViolationWithoutValues(builder),
              StartsWith("monotonic reads: worker 1 saw version 2 and "
                         "min_step 1, and then version 2 and min_step 0"));
}

TEST(CheckHistoryTest, AMinStepThatIsTooHighIsFound) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 1, {{0, 0}}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("min_step: the pull of step 1 by worker 0 lacks the "
                                               "update of worker 1 at step 0, a live worker, but "
                                               "reports min_step 1"));
  EXPECT_THAT(ViolationWithoutValues(builder),
              StartsWith("min_step: min_step was reported as 1, but the "
                         "live worker 1 had not sent its update of "
                         "step 0 by then"));
}

TEST(CheckHistoryTest, AMinStepThatIsTooLowIsFound) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}});
  builder.Ask(1, 101, 0, 1, 30).Answer(32, 2, 0, {{0, 0}, {1, 0}}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("min_step: the pull of step 1 by worker 1 reports "
                                               "min_step 0, but the server has the pushes of that "
                                               "step of all live workers"));
}

TEST(CheckHistoryTest, AVersionThatDoesNotFitTheValuesIsFound) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(1, 101, 0, 1, 20);  // stays open
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 2, 0, {{0, 0}}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("version: the pull of step 1 by worker 0 reports "
                                               "version 2, but its values have 1 applications"));
}

TEST(CheckHistoryTest, ADeadWorkerIsNotWaitedFor) {
  HistoryBuilder builder = Started(kSsp, 0);
  builder.Member(kDied, 1, 101, 15).Ask(0, 100, 0, 1, 20);
  EXPECT_EQ(ViolationOf(builder.End(900)), "");
  builder.records().pop_back();
  EXPECT_THAT(ViolationOf(builder.End(5000)),
              StartsWith("every exchange is answered: worker 0 was live to the end"));
}

TEST(CheckHistoryTest, AWorkerMayLeaveOnceAllIsAnswered) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(1, 101, 0, 1, 20).Answer(22, 1, 0, {{1, 0}});
  builder.Member(kLeft, 1, 101, 30).Ask(0, 100, 0, 1, 40).Answer(42, 2, 1, {{0, 0}, {1, 0}});
  EXPECT_EQ(ViolationOf(builder.End(900)), "");
}

TEST(CheckHistoryTest, AWorkerThatLeavesMayGiveUpAPull) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(1, 101, /*push=*/-1, 0, 20).Member(kLeft, 1, 101, 30);
  EXPECT_EQ(ViolationOf(builder.End(900)), "");
}

TEST(CheckHistoryTest, AWorkerThatLeavesBeforeAnAnswerIsFound) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(1, 101, 0, 1, 20).Member(kLeft, 1, 101, 30);
  EXPECT_THAT(ViolationOf(builder.End(900)),
              StartsWith("nothing lost by leaving: worker 1 has left before its exchange"));
}

TEST(CheckHistoryTest, AWorkerMayLeaveIfAPushThatWasRefusedWasAnsweredLater) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(1, 101, 0, 1, 20).Answer(21, 0, 0, {});
  builder.records().back().mutable_ended()->set_code(static_cast<int>(absl::StatusCode::kNotFound));
  HistoryBuilder never = builder;
  builder.Ask(1, 101, 0, 1, 22).Answer(24, 1, 0, {{1, 0}}).Member(kLeft, 1, 101, 30);
  EXPECT_EQ(ViolationOf(builder.End(900)), "");
  never.Member(kLeft, 1, 101, 30);
  EXPECT_THAT(ViolationOf(never.End(900)), StartsWith("nothing lost by leaving"));
}

TEST(CheckHistoryTest, AJoinerStartsAtItsFirstStepAndTheOlderIncarnationIsNotHeard) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(1, 101, 0, 1, 14).Answer(15, 1, 0, {{1, 0}});
  builder.Member(kDied, 1, 101, 16).Member(kJoining, 1, 200, 17);
  builder.Member(kEntered, 1, 200, 18, /*first_step=*/2);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 2, 1, {{1, 0}, {0, 0}});
  builder.Ask(1, 200, -1, 2, 24).Answer(26, 2, 1, {{1, 0}, {0, 0}});
  EXPECT_EQ(ViolationOf(builder), "");
  builder.Ask(1, 101, -1, 1, 30).Answer(31, 2, 1, {{1, 0}, {0, 0}});
  EXPECT_THAT(ViolationOf(builder.End(50)),
              StartsWith("stale incarnation: an exchange of incarnation 101 of worker 1 was "
                         "accepted after one of 200"));
}

TEST(CheckHistoryTest, WhatTheOlderIncarnationHadSentIsNotHeardAfterTheNewer) {
  for (const uint64_t version : {1, 2}) {
    HistoryBuilder builder = Started(kAsync, 0);
    builder.Ask(0, 100, 0, 1, 13).Answer(14, 1, 0, {{0, 0}});
    builder.Ask(1, 101, 0, 1, 15);
    const v1::HistoryRecord asked = builder.records().back();
    builder.Member(kDied, 1, 101, 16).Member(kJoining, 1, 200, 17);
    builder.Member(kEntered, 1, 200, 18, /*first_step=*/0);
    builder.Ask(1, 200, -1, 0, 24).Answer(26, 1, 0, {{0, 0}});
    v1::ExchangeEnded late;
    late.set_id(asked.began().id());
    late.set_incarnation(101);
    late.set_version(version);
    late.set_time_ns(30'000);
    *builder.records().emplace_back().mutable_ended() = late;
    const std::string violation = ViolationWithoutValues(builder.End(50));
    if (version == 1) {
      EXPECT_EQ(violation, "") << "the answer may have been on its way";
    } else {
      EXPECT_THAT(violation,
                  StartsWith("stale incarnation: an exchange of incarnation 101 of worker 1 was "
                             "accepted after one of 200"));
    }
  }
}

// Worker 1 is lost after its push of step 0, and another process with incarnation 200 begins at
// `first_step`.
HistoryBuilder ReplacedAfterStep0(v1::ContractRecord::Mode mode, int64_t first_step) {
  HistoryBuilder builder = Started(mode, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(42, 1, 1, {{0, 0}, {1, 0}}, /*is_mean=*/true);
  builder.Ask(1, 101, 0, 1, 40).Answer(42, 1, 1, {{0, 0}, {1, 0}}, /*is_mean=*/true);
  builder.Member(kDied, 1, 101, 43).Member(kJoining, 1, 200, 44);
  builder.Member(kEntered, 1, 200, 45, first_step);
  return builder;
}

TEST(CheckHistoryTest, AnotherProcessMayDoALostOnesStepAgainWithTheValuesBeforeIt) {
  HistoryBuilder builder = ReplacedAfterStep0(kBsp, /*first_step=*/0);
  builder.Ask(1, 200, -1, 0, 50).Answer(52, 0, 0, {});
  builder.Ask(1, 200, 0, 1, 54).Answer(56, 1, 1, {{0, 0}, {1, 0}}, /*is_mean=*/true).End(60);
  EXPECT_EQ(ViolationOf(builder), "");
}

TEST(CheckHistoryTest, WhoDoesNoStepAgainMustNotSeeOlderValues) {
  HistoryBuilder same = ReplacedAfterStep0(kBsp, /*first_step=*/0);
  same.Ask(0, 100, -1, 0, 50).Answer(52, 0, 0, {}).End(60);
  EXPECT_THAT(ViolationOf(same), StartsWith("monotonic reads"));
  HistoryBuilder next = ReplacedAfterStep0(kBsp, /*first_step=*/1);
  next.Ask(1, 200, -1, 1, 50).Answer(52, 0, 0, {}).End(60);
  EXPECT_THAT(ViolationWithoutValues(next), StartsWith("stale incarnation"));
  // Outside of BSP no step is done again.
  HistoryBuilder async = ReplacedAfterStep0(kAsync, /*first_step=*/0);
  async.Ask(1, 200, -1, 0, 50).Answer(52, 0, 0, {}).End(60);
  EXPECT_THAT(ViolationWithoutValues(async), StartsWith("stale incarnation"));
}

TEST(CheckHistoryTest, AChangeOfStalenessCountsFromItsStepAndForItsTable) {
  for (const bool is_of_this_table : {true, false}) {
    HistoryBuilder builder = Started(kSsp, 0);
    builder.Promise(1, kSsp, 1, is_of_this_table ? 0 : 5);
    builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {{0, 0}}).End(50);
    EXPECT_EQ(ViolationOf(builder).empty(), is_of_this_table);
  }
}

TEST(CheckHistoryTest, WithoutTestValuesTheRepliesAreStillChecked) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {});
  builder.Ask(1, 101, 0, 1, 30).Answer(32, 2, 1, {});
  EXPECT_EQ(ViolationWithoutValues(builder), "");
  HistoryBuilder twice = builder;
  twice.Ask(0, 100, -1, 1, 40).Answer(42, 3, 1, {}).End(50);
  EXPECT_THAT(ViolationWithoutValues(twice),
              StartsWith("exactly once: version 3 at min_step 1, but the updates sent by then "
                         "allow only 2"));
  HistoryBuilder lost = builder;
  lost.Ask(0, 100, -1, 1, 40).Answer(42, 1, 1, {}).End(50);
  EXPECT_THAT(ViolationWithoutValues(lost),
              StartsWith("exactly once: version 1 at min_step 1, but the updates acknowledged "
                         "before make 2"));
}

TEST(CheckHistoryTest, VersionsAreCheckedAcrossAChangeOfTheMode) {
  // Step 0 is one version, later pushes are one each.
  HistoryBuilder builder = Started(v1::ContractRecord::BSP, 0);
  builder.Promise(1, kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20);  // stays open
  builder.Ask(1, 101, 0, 1, 23).Answer(24, 1, 1, {});
  builder.Ask(0, 100, 1, 2, 30).Answer(32, 2, 1, {});
  EXPECT_EQ(ViolationWithoutValues(builder), "");
  HistoryBuilder twice = builder;
  twice.Ask(1, 101, -1, 1, 40).Answer(42, 3, 1, {}).End(50);
  EXPECT_THAT(ViolationWithoutValues(twice), StartsWith("exactly once: version 3 at min_step 1"));
  HistoryBuilder lost = builder;
  lost.Ask(1, 101, -1, 1, 40).Answer(42, 1, 1, {}).End(50);
  EXPECT_THAT(ViolationWithoutValues(lost), StartsWith("exactly once: version 1 at min_step 1"));
}

TEST(CheckHistoryTest, ClocksThatDifferProveNothing) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 0, {});
  builder.Ask(1, 101, -1, 0, 23).Answer(24, 0, 0, {}).End(50);
  EXPECT_THAT(ViolationWithoutValues(builder), StartsWith("exactly once: version 0"));
  builder.records()[0].mutable_header()->set_clock_skew_ns(5'000);
  EXPECT_EQ(ViolationWithoutValues(builder), "");
}

// Worker 0 pushes step 0 with a gradient of version 0, then worker 1 with one of `second_base`.
// Both learning rates are divided.
HistoryBuilder TwoPushes(v1::HistoryHeader::UpdateScale scale, uint64_t first_divisor,
                         uint64_t second_divisor, uint64_t second_base = 0) {
  HistoryBuilder builder = Started(kAsync, 0);
  builder.records()[0].mutable_header()->set_update_scale(scale);
  const auto push = [&builder](uint32_t worker, int64_t at_us, uint64_t base, uint64_t divisor,
                               const std::vector<HistoryBuilder::Update>& updates) {
    builder.Ask(worker, 100 + worker, 0, 1, at_us);
    v1::ExchangeBegan& began = *builder.records().back().mutable_began();
    began.set_has_base_version(true);
    began.set_base_version(base);
    builder.Answer(at_us + 2, worker + 1, worker, updates);
    builder.records().back().mutable_ended()->set_learning_rate_divisor(divisor);
  };
  push(0, 20, /*base=*/0, first_divisor, {{0, 0}});
  push(1, 30, second_base, second_divisor, {{0, 0}, {1, 0}});
  builder.End(50);
  return builder;
}

TEST(CheckHistoryTest, LearningRatesDividedByWorkersAndStalenessAreAccepted) {
  EXPECT_EQ(ViolationWithoutValues(TwoPushes(v1::HistoryHeader::STALENESS, 2, 3)), "");
  EXPECT_EQ(ViolationWithoutValues(TwoPushes(v1::HistoryHeader::MEAN, 2, 2)), "");
  EXPECT_EQ(ViolationWithoutValues(TwoPushes(v1::HistoryHeader::SUM, 1, 1)), "");
}

TEST(CheckHistoryTest, ALearningRateDividedByTooLittleOrTooMuchIsFound) {
  EXPECT_THAT(ViolationWithoutValues(TwoPushes(v1::HistoryHeader::STALENESS, 2, 2)),
              StartsWith("update scale: the learning rate of the push of step 0 by worker 1 was "
                         "divided by 2, expected 3 to 3"));
  EXPECT_THAT(ViolationWithoutValues(TwoPushes(v1::HistoryHeader::STALENESS, 2, 4)),
              StartsWith("update scale"));
  EXPECT_THAT(ViolationWithoutValues(TwoPushes(v1::HistoryHeader::MEAN, 2, 3)),
              StartsWith("update scale"));
  EXPECT_THAT(ViolationWithoutValues(TwoPushes(v1::HistoryHeader::SUM, 1, 2)),
              StartsWith("update scale"));
}

TEST(CheckHistoryTest, APushThatClaimsOtherValuesThanItsWorkerPulledIsFound) {
  EXPECT_THAT(
      ViolationWithoutValues(TwoPushes(v1::HistoryHeader::STALENESS, 2, 2, /*second_base=*/1)),
      StartsWith("update scale: a push of worker 1 says that it was computed with version "
                 "1, but it had pulled version 0"));
}

TEST(CheckHistoryTest, ValuesThatWereNotDividedAsTheAnswerSaysAreFound) {
  EXPECT_EQ(ViolationOf(TwoPushes(v1::HistoryHeader::SUM, 1, 1)), "");
  EXPECT_THAT(ViolationOf(TwoPushes(v1::HistoryHeader::STALENESS, 2, 3)),
              StartsWith("update scale: the pull of step 1 by worker 0 contains the update of "
                         "worker 0 at step 0 divided by 1, expected by 2"));
}

TEST(CheckHistoryTest, ABspPushThatWasAppliedByItselfIsFound) {
  HistoryBuilder builder = Started(kBsp, 0);
  builder.records()[0].mutable_header()->set_update_scale(v1::HistoryHeader::STALENESS);
  builder.Ask(0, 100, 0, 1, 20).Answer(42, 1, 1, {{0, 0}, {1, 0}}, /*is_mean=*/true);
  builder.records().back().mutable_ended()->set_learning_rate_divisor(2);
  builder.Ask(1, 101, 0, 1, 40).Answer(42, 1, 1, {{0, 0}, {1, 0}}, /*is_mean=*/true).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("update scale"));
}

// Goes on from a checkpoint of step 1. The slice has two updates of worker 0 and one of worker 1.
HistoryBuilder Restored(v1::ContractRecord::Mode mode, int64_t staleness) {
  HistoryBuilder builder(mode, staleness);
  builder.Restore(/*step=*/1, {{0, 0}, {0, 1}, {1, 0}});
  int64_t first_step = 2;
  for (v1::HistoryRecord& record : builder.records()) {
    if (record.has_membership()) record.mutable_membership()->set_first_step(first_step--);
  }
  return builder;
}

TEST(CheckHistoryTest, AfterACheckpointItsUpdatesAreThereFromTheStart) {
  HistoryBuilder builder = Restored(kSsp, 1);
  builder.Ask(1, 101, -1, 1, 10).Answer(12, 3, 1, {{0, 0}, {0, 1}, {1, 0}});
  builder.Ask(0, 100, -1, 2, 13).Answer(14, 3, 1, {{0, 0}, {0, 1}, {1, 0}});
  builder.Ask(1, 101, 1, 2, 20).Answer(22, 4, 2, {{0, 0}, {0, 1}, {1, 0}, {1, 1}}).End(50);
  EXPECT_EQ(ViolationOf(builder), "");
}

TEST(CheckHistoryTest, AfterACheckpointNoneOfItsUpdatesMayBeLost) {
  HistoryBuilder builder = Restored(kSsp, 1);
  builder.Ask(1, 101, -1, 1, 10).Answer(12, 2, 1, {{0, 0}, {1, 0}}).End(50);
  EXPECT_THAT(ViolationOf(builder), HasSubstr("lacks the update of worker 0 at step 1"));
}

TEST(CheckHistoryTest, AfterACheckpointAnUpdateMustNotBeAppliedAgain) {
  HistoryBuilder builder = Restored(kSsp, 1);
  builder.Ask(0, 100, 1, 2, 10).Answer(12, 4, 1, {{0, 0}, {0, 1}, {0, 1}, {1, 0}}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("exactly once"));
}

TEST(CheckHistoryTest, AnUpdateThatIsNotInTheCheckpointIsAPhantom) {
  HistoryBuilder builder = Restored(kSsp, 1);
  builder.Ask(1, 101, -1, 1, 10).Answer(12, 4, 1, {{0, 0}, {0, 1}, {1, 0}, {1, 2}}).End(50);
  EXPECT_THAT(ViolationOf(builder), HasSubstr("no phantoms"));
}

TEST(CheckHistoryTest, WithoutValuesVersionsAfterACheckpointSayNothingButBoundsDo) {
  HistoryBuilder good(kSsp, 1);
  good.Ask(0, 100, -1, 2, 10).Answer(12, /*version=*/77, /*min_step=*/1, {}).End(50);
  EXPECT_NE(ViolationWithoutValues(good), "") << "nobody has pushed anything";
  good.records()[0].mutable_header()->set_restored_step(1);
  EXPECT_EQ(ViolationWithoutValues(good), "");
  HistoryBuilder bad(kSsp, 1);
  bad.records()[0].mutable_header()->set_restored_step(1);
  bad.Ask(0, 100, -1, 2, 10).Answer(12, /*version=*/77, /*min_step=*/0, {}).End(50);
  EXPECT_THAT(ViolationWithoutValues(bad), StartsWith("staleness bound"));
  HistoryBuilder back(kAsync, 0);
  back.records()[0].mutable_header()->set_restored_step(1);
  back.Ask(0, 100, -1, 0, 10).Answer(12, /*version=*/77, /*min_step=*/1, {});
  back.Ask(0, 100, -1, 0, 20).Answer(22, /*version=*/76, /*min_step=*/1, {}).End(50);
  EXPECT_NE(ViolationWithoutValues(back), "") << "a version goes back";
}

// The request before was a push without a gradient.
HistoryBuilder& Empty(HistoryBuilder& builder) {
  builder.records().back().mutable_began()->set_is_empty_push(true);
  return builder;
}

// Worker 1 has no gradient in step 0, and nobody has one in step 1.
HistoryBuilder WithEmptyPushes(v1::ContractRecord::Mode mode) {
  const bool is_bsp = mode == kBsp;
  HistoryBuilder builder = Started(mode, 0);
  builder.records().front().mutable_header()->set_update_scale(v1::HistoryHeader::SUM);
  const auto divide = [is_bsp](HistoryBuilder& answered) {
    for (float& value : *answered.records().back().mutable_ended()->mutable_values()) {
      value /= is_bsp ? 2 : 1;
    }
  };
  builder.Ask(0, 100, 0, 1, 20);
  if (!is_bsp) builder.records().back().mutable_began()->set_learning_rate(1);
  builder.Answer(42, 1, 1, {{0, 0}});
  builder.records().back().mutable_ended()->set_learning_rate_divisor(is_bsp ? 0 : 1);
  divide(builder);
  Empty(builder.Ask(1, 101, 0, 1, 30)).Answer(42, 1, 1, {{0, 0}});
  divide(builder);
  Empty(builder.Ask(0, 100, 1, 2, 50)).Answer(62, 1, 2, {{0, 0}});
  divide(builder);
  Empty(builder.Ask(1, 101, 1, 2, 50)).Answer(62, 1, 2, {{0, 0}});
  divide(builder);
  return builder;
}

TEST(CheckHistoryTest, PushesWithoutAGradientAreStepsAndNoUpdates) {
  for (const auto mode : {kBsp, kSsp}) {
    HistoryBuilder builder = WithEmptyPushes(mode);
    builder.End(90);
    EXPECT_EQ(ViolationOf(builder), "");
    EXPECT_EQ(ViolationWithoutValues(builder), "");
  }
}

TEST(CheckHistoryTest, AnApplicationOfAStepWithoutGradientsIsFound) {
  for (const auto mode : {kBsp, kSsp}) {
    HistoryBuilder builder = WithEmptyPushes(mode);
    builder.records().back().mutable_ended()->set_version(2);
    builder.End(90);
    EXPECT_THAT(ViolationOf(builder), StartsWith("version: the pull of step 2 by worker 1 reports "
                                                 "version 2, but its values have 1 applications"));
    EXPECT_THAT(ViolationWithoutValues(builder),
                StartsWith("exactly once: version 2 at min_step 2, but the updates sent by then "
                           "allow only 1: an update was applied twice"));
  }
}

TEST(CheckHistoryTest, AMeanWithoutTheEmptyPushesIsFound) {
  HistoryBuilder builder = WithEmptyPushes(kBsp);
  for (v1::HistoryRecord& record : builder.records()) {
    if (!record.has_ended()) continue;
    for (float& value : *record.mutable_ended()->mutable_values()) value *= 2;
  }
  EXPECT_THAT(ViolationOf(builder.End(90)),
              StartsWith("one sum a step: the pull of step 1 by worker 0 contains the update of "
                         "worker 0 at step 0 divided by 1, expected by 2"));
}

TEST(CheckHistoryTest, AnUpdateOfAPushWithoutAGradientIsFound) {
  HistoryBuilder builder = Started(kAsync, 0);
  Empty(builder.Ask(0, 100, 0, 1, 20)).Answer(22, 1, 0, {{0, 0}}).End(50);
  EXPECT_THAT(
      ViolationOf(builder),
      StartsWith("no phantoms: the pull of step 1 by worker 0 contains the update of worker "
                 "0 at step 0, a push without a gradient"));
}

TEST(CheckHistoryTest, ADivisorOfAPushWithoutAGradientIsFound) {
  HistoryBuilder builder = WithEmptyPushes(kSsp);
  builder.records().back().mutable_ended()->set_learning_rate_divisor(1);
  EXPECT_THAT(ViolationOf(builder.End(90)),
              StartsWith("update scale: the learning rate of the push of step 1 by worker 1 was "
                         "divided by 1, expected 0 to 0"));
}

TEST(CheckHistoryTest, AnAnswerBeforeAPushWithoutAGradientIsFound) {
  HistoryBuilder builder = Started(kSsp, 0);
  builder.Ask(0, 100, 0, 1, 20).Answer(22, 1, 1, {{0, 0}});
  Empty(builder.Ask(1, 101, 0, 1, 30)).Answer(32, 1, 1, {{0, 0}}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("min_step: min_step was reported as 1, but the live "
                                               "worker 1 had not sent its update of step 0"));
}

HistoryBuilder& Initial(HistoryBuilder& builder, uint32_t worker, int64_t begin_us) {
  builder.Ask(worker, 100 + worker, -1, 0, begin_us);
  v1::ExchangeBegan& began = *builder.records().back().mutable_began();
  began.set_is_initial(true);
  began.set_has_pull(false);
  return builder;
}

TEST(CheckHistoryTest, InitialValuesOfWorker0BeforeAllElseAreAccepted) {
  HistoryBuilder builder(kBsp, 0);
  Initial(builder, 0, 5).Answer(8, 0, 0, {});
  builder.Ask(1, 101, -1, 0, 4).Answer(12, 0, 0, {}).End(50);
  EXPECT_EQ(ViolationOf(builder), "");
}

TEST(CheckHistoryTest, AnAnswerBeforeTheInitialValuesIsFound) {
  HistoryBuilder builder(kBsp, 0);
  builder.Ask(1, 101, -1, 0, 4).Answer(12, 0, 0, {});
  Initial(builder, 0, 15).Answer(18, 0, 0, {}).End(50);
  EXPECT_THAT(ViolationOf(builder),
              StartsWith("initial values: worker 1 was answered before worker 0 had sent them"));
}

TEST(CheckHistoryTest, InitialValuesOfAnotherWorkerAreFound) {
  HistoryBuilder builder(kBsp, 0);
  Initial(builder, 1, 15).Answer(18, 0, 0, {}).End(50);
  EXPECT_THAT(ViolationOf(builder), StartsWith("initial values: those of worker 1 were taken"));
}

}  // namespace
}  // namespace capstan
