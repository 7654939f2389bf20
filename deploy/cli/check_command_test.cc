#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "absl/time/time.h"
#include "common/history/history_builder.h"
#include "common/history/history_file.h"
#include "deploy/cli/commands.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

std::string Write(const std::string& name, const HistoryBuilder& builder) {
  HistoryBuilder copy = builder;
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << SerializeHistory(copy.records());
  return path;
}

HistoryBuilder OnePull(int64_t pull_step) {
  HistoryBuilder builder(v1::ContractRecord::SSP, 1);
  builder.Ask(0, 100, -1, pull_step, 10).Answer(20, 0, 0, {}).End(30);
  return builder;
}

TEST(CheckCommandTest, AGoodHistoryIsSummed) {
  std::ostringstream out;
  EXPECT_TRUE(CheckCommand(Write("good.history", OnePull(0)), std::nullopt, out).ok());
  EXPECT_EQ(out.str(),
            "ssp(1): 1 exchanges (1 pulls) of 1 slices by 2 worker processes, with values\n"
            "checked by versions and min_step: staleness bound, isolation of BSP, exactly once, "
            "monotonic reads, min_step, stale incarnations, an answer to every exchange\n"
            "checked by values: which updates each pull contains (read-my-writes, phantoms, one "
            "sum a step)\n"
            "clocks may differ by 0\n"
            "the consistency contract was kept\n");
}

TEST(CheckCommandTest, AllPeriodsAndWhatIsNotCheckedAreNamed) {
  HistoryBuilder builder = OnePull(0);
  builder.Promise(2, v1::ContractRecord::SSP, 5, /*table=*/3);
  builder.Promise(3, v1::ContractRecord::BSP, 0).Promise(3, v1::ContractRecord::BSP, 0);
  builder.records()[0].mutable_header()->set_has_test_values(false);
  std::ostringstream out;
  EXPECT_TRUE(CheckCommand(Write("periods.history", builder), absl::Milliseconds(20), out).ok());
  EXPECT_THAT(out.str(), HasSubstr("ssp(1), ssp(5) for table 3 from step 2, bsp from step 3: "));
  EXPECT_THAT(out.str(),
              HasSubstr("not checked, because the history has no values: which updates"));
  EXPECT_THAT(out.str(), HasSubstr("clocks may differ by 20ms\n"));
}

TEST(CheckCommandTest, AClockSkewIsANumberOfMilliseconds) {
  EXPECT_EQ(ReadClockSkew("").value(), std::nullopt);
  EXPECT_EQ(ReadClockSkew("2.5").value(), absl::Microseconds(2500));
  for (const char* const bad : {"-1", "soon", "nan", "1e9"}) {
    EXPECT_THAT(std::string(ReadClockSkew(bad).status().message()),
                HasSubstr("--clock_skew_ms: expected a number from 0 to 3600000, got"));
  }
}

TEST(CheckCommandTest, AViolationIsAnErrorWithItsExchanges) {
  std::ostringstream out;
  const absl::Status status = CheckCommand(Write("bad.history", OnePull(3)), std::nullopt, out);
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the contract was broken: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\n  pull of step 3 by worker 0"));
  EXPECT_THAT(out.str(), testing::Not(HasSubstr("kept")));
  EXPECT_THAT(out.str(), HasSubstr(" violations; updates lost: 0, applied twice: 0\n"));
}

TEST(CheckCommandTest, AMissingHistoryIsNamed) {
  std::ostringstream out;
  EXPECT_THAT(std::string(CheckCommand("/no/such.history", std::nullopt, out).message()),
              HasSubstr("/no/such.history"));
}

}  // namespace
}  // namespace capstan
