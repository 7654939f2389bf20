#include "common/job/job_help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/job/job_settings.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(JobHelpTest, EachSettingIsInOneOfBothHelpsWithACommentAndItsDefault) {
  for (const JobSetting& setting : JobSettings()) {
    const std::string usage = absl::StrCat("  ", setting.OnCommandLine(), "=");
    const std::string negated = absl::StrCat("  --[no]", setting.flag, "\n");
    const bool is_flag = absl::StrContains(JobFlagsHelp(), usage) ||
                         (!setting.flag.empty() && absl::StrContains(JobFlagsHelp(), negated));
    EXPECT_EQ(is_flag, !setting.flag.empty()) << setting.path;
    EXPECT_EQ(absl::StrContains(JobFieldsHelp(), usage), setting.flag.empty()) << setting.path;
    const std::string comment = JobComment(absl::StrCat(
        setting.descriptor->containing_type()->name(), ".", setting.descriptor->name()));
    EXPECT_TRUE(absl::EndsWith(comment, ".")) << setting.path << ": " << comment;
  }
}

TEST(JobHelpTest, SaysValuesUnitsAndDefaults) {
  EXPECT_THAT(JobFlagsHelp(), HasSubstr("\nOptimizer:\n"));
  EXPECT_THAT(JobFlagsHelp(), HasSubstr("--consistency=bsp|ssp|async\n"));
  EXPECT_THAT(JobFlagsHelp(), HasSubstr("--[no]allow_other_bits\n"));
  EXPECT_THAT(JobFlagsHelp(), HasSubstr("Default: momentum."));
  EXPECT_THAT(JobFlagsHelp(), HasSubstr("Default: none."));
  EXPECT_THAT(JobFlagsHelp(), HasSubstr("  --field=FIELD=VALUE\n"));
  EXPECT_THAT(JobFieldsHelp(), HasSubstr("\nLimits:\n"));
  EXPECT_THAT(JobFieldsHelp(), HasSubstr("  --field=scheduler.credit_bytes=BYTES\n"));
  EXPECT_THAT(JobFieldsHelp(), HasSubstr("  --field=transport.ucx_poll=sleep|busy\n"));
  EXPECT_THAT(JobFieldsHelp(), HasSubstr("Default: 4MiB."));
}

TEST(JobHelpTest, ValuesOfAnEnumAreExplainedBehindTheField) {
  EXPECT_EQ(JobComment("ConsistencySpec.Mode.SSP"), "workers may differ by --staleness steps");
  EXPECT_EQ(JobComment("OptimizerSpec.Type.SGD"), "");
  EXPECT_EQ(JobComment(""), "");
  std::string help = JobFlagsHelp();
  absl::RemoveExtraAsciiWhitespace(&help);
  EXPECT_THAT(help,
              HasSubstr("ssp: workers may differ by --staleness steps. async: no worker waits. "
                        "Default: bsp."));
  EXPECT_THAT(help, Not(HasSubstr(" sgd: ")));
}

TEST(JobHelpTest, FitsAScreenOf100Columns) {
  const std::string help = absl::StrCat(JobFlagsHelp(), JobFieldsHelp());
  for (absl::string_view line : absl::StrSplit(help, '\n')) EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace capstan
