#include "deploy/cli/check_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "common/history/history_builder.h"
#include "common/history/history_file.h"

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
  EXPECT_TRUE(CheckCommand(Write("good.history", OnePull(0)), out).ok());
  EXPECT_EQ(out.str(),
            "ssp(1): 1 exchanges (1 pulls) of 1 slices by 2 worker processes, with values\n"
            "the consistency contract was kept\n");
}

TEST(CheckCommandTest, AViolationIsAnErrorWithItsExchanges) {
  std::ostringstream out;
  const absl::Status status = CheckCommand(Write("bad.history", OnePull(3)), out);
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the contract was broken: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\n  pull of step 3 by worker 0"));
  EXPECT_THAT(out.str(), testing::Not(HasSubstr("kept")));
}

TEST(CheckCommandTest, AMissingHistoryIsNamed) {
  std::ostringstream out;
  EXPECT_THAT(std::string(CheckCommand("/no/such.history", out).message()),
              HasSubstr("/no/such.history"));
}

}  // namespace
}  // namespace capstan
