#include "common/history/history.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/history/history_builder.h"

namespace capstan {
namespace {

constexpr auto kSsp = v1::ContractRecord::SSP;

TEST(HistoryTest, JoinsEachAnswerToItsQuestion) {
  HistoryBuilder builder(kSsp, 1);
  builder.Ask(0, 100, -1, 0, 10).Answer(20, 0, 0, {}).Ask(1, 101, 0, 1, 15).End(30);
  const History history = builder.Build();
  ASSERT_EQ(history.exchanges.size(), 2);
  EXPECT_TRUE(history.exchanges[0].is_ok());
  EXPECT_EQ(history.exchanges[0].end_ns, 20'000);
  EXPECT_FALSE(history.exchanges[1].is_answered());
  EXPECT_EQ(Describe(history.exchanges[0], history.begin_ns),
            "pull of step 0 by worker 0 (incarnation 100), slice 0 of table 0, 0.000000 s to "
            "0.000010 s: version 0, min_step 0");
  EXPECT_EQ(Describe(history.exchanges[1], history.begin_ns),
            "push of step 0, pull of step 1 by worker 1 (incarnation 101), slice 0 of table 0, "
            "0.000005 s to the end: not answered");
}

TEST(HistoryTest, ChangesOfElementsThatNobodyHasAreRefused) {
  HistoryBuilder builder(kSsp, 1);
  builder.Ask(0, 100, 0, 1, 10).Answer(20, 1, 0, {{0, 0}}).UseChanges();
  ASSERT_EQ(builder.Build().exchanges[0].changes->size(), 1u);
  const auto is_refused = [](const HistoryBuilder& changed) {
    HistoryBuilder copy = changed;
    return absl::IsInvalidArgument(HistoryAssembler().AddFile(copy.records()));
  };
  EXPECT_FALSE(is_refused(builder));
  HistoryBuilder beyond = builder;
  beyond.records().back().mutable_ended()->set_changed_elements(0, 8);
  EXPECT_TRUE(is_refused(beyond));
  HistoryBuilder more = builder;
  more.records().back().mutable_ended()->add_changed_elements(1);
  EXPECT_TRUE(is_refused(more));
  HistoryBuilder many_steps = builder;
  many_steps.records().front().mutable_header()->set_steps(int64_t{1} << 40);
  EXPECT_TRUE(is_refused(many_steps)) << "they take no memory";
}

TEST(HistoryTest, AFileWithoutItsEndIsOfAWorkerThatDiedWhenItAskedWhatItWasAnsweredLast) {
  HistoryBuilder builder(kSsp, 1);
  builder.Ask(0, 100, -1, 0, 10).Answer(20, 0, 0, {});
  builder.Ask(0, 100, 0, 1, 30).Answer(900, 0, 0, {});
  // Refused: it had been declared dead before it asked.
  builder.records().back().mutable_ended()->set_code(
      static_cast<int>(absl::StatusCode::kFailedPrecondition));
  const History history = builder.Build();
  const v1::MembershipRecord& death = history.membership.back();
  EXPECT_EQ(death.event(), v1::MembershipRecord::DIED);
  EXPECT_EQ(death.time_ns(), 10'000);
}

TEST(HistoryTest, RefusesFilesThatDoNotFit) {
  HistoryAssembler assembler;
  EXPECT_FALSE(assembler.AddFile({}).ok());
  EXPECT_FALSE(assembler.Finish().ok());
  HistoryBuilder builder(kSsp, 1);
  builder.Ask(0, 100, -1, 0, 10).Answer(20, 0, 0, {});
  ASSERT_TRUE(assembler.AddFile(builder.records()).ok());
  EXPECT_FALSE(assembler.AddFile(builder.records()).ok()) << "the same file twice";
  HistoryBuilder other_job(kSsp, 1);
  other_job.records()[0].mutable_header()->set_job(2);
  EXPECT_NE(assembler.AddFile(other_job.records()).message().find("two jobs"), std::string::npos);
  HistoryBuilder newer(kSsp, 1);
  newer.records()[0].mutable_header()->set_format_version(2);
  EXPECT_FALSE(HistoryAssembler().AddFile(newer.records()).ok());
}

TEST(HistoryTest, RefusesTimesAndStepsThatCannotBe) {
  constexpr int64_t kImpossible[] = {-1, std::numeric_limits<int64_t>::max()};
  for (const int64_t number : kImpossible) {
    HistoryBuilder skewed(kSsp, 1);
    skewed.records()[0].mutable_header()->set_clock_skew_ns(number);
    EXPECT_FALSE(HistoryAssembler().AddFile(skewed.records()).ok());
    HistoryBuilder late(kSsp, 1);
    late.Ask(0, 100, -1, 0, 10).Answer(20, 0, 0, {});
    late.records().back().mutable_ended()->set_time_ns(number);
    EXPECT_FALSE(HistoryAssembler().AddFile(late.records()).ok());
    HistoryBuilder far(kSsp, 1);
    far.Ask(0, 100, -1, 0, 10).Answer(20, 0, number, {});
    const absl::Status status = HistoryAssembler().AddFile(far.records());
    EXPECT_NE(status.message().find("an impossible time or step"), std::string::npos);
  }
}

TEST(HistoryTest, ARestoredSliceIsKeptByItsKey) {
  HistoryBuilder builder(kSsp, 1);
  builder.Restore(/*step=*/40, {{1, 39}});
  builder.records().back().mutable_restored()->set_table(3);
  builder.records().back().mutable_restored()->set_slice(5);
  const History history = builder.End(10).Build();
  EXPECT_EQ(history.header.restored_step(), 40);
  ASSERT_EQ(history.restored.size(), 1u);
  const v1::RestoredSlice& restored = history.restored.at({TableId(3), SliceIndex(5)});
  ASSERT_EQ(restored.updates_size(), 1);
  EXPECT_EQ(restored.updates(0).worker(), 1u);
  EXPECT_EQ(restored.updates(0).step(), 39);
  for (const int64_t step : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    HistoryBuilder of_step(kSsp, 1), of_update(kSsp, 1);
    EXPECT_FALSE(HistoryAssembler().AddFile(of_step.Restore(step, {}).records()).ok());
    EXPECT_FALSE(HistoryAssembler().AddFile(of_update.Restore(1, {{0, step}}).records()).ok());
  }
}

}  // namespace
}  // namespace capstan
