#include "deploy/cli/cli_help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/job/job_flags.h"
#include "common/job/job_help.h"
#include "deploy/cli/command_flags.h"
#include "deploy/cli/help_topics.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CliHelpTest, OverviewNamesEveryCommand) {
  EXPECT_THAT(CapstanHelp(), AllOf(HasSubstr("capstan run"), HasSubstr("capstan status"),
                                   HasSubstr("capstan set"), HasSubstr("capstan check "),
                                   HasSubstr("capstan checkpoint"), HasSubstr("capstan export"),
                                   HasSubstr("capstan evaluate"), HasSubstr("capstan report"),
                                   HasSubstr("capstan job"), HasSubstr("capstan keys"),
                                   HasSubstr("capstan trace"), HasSubstr("capstan help")));
}

// Names of the flags in a help text, as often as they are there.
std::multiset<std::string> FlagsIn(const std::string& help) {
  std::multiset<std::string> names;
  for (absl::string_view line : absl::StrSplit(help, '\n')) {
    if (!absl::ConsumePrefix(&line, "  --")) continue;
    absl::ConsumePrefix(&line, "[no]");
    names.emplace(line.substr(0, line.find_first_of("=[")));
  }
  return names;
}

TEST(CliHelpTest, EachFlagOfRunIsUnderOneHeading) {
  std::multiset<std::string> expected = {"flagfile", "help"};
  for (const CommandFlag& flag : RunFlags()) {
    EXPECT_FALSE(flag.group.empty()) << flag.name;
    expected.emplace(flag.name);
  }
  for (const std::string& name : JobFlagNames()) expected.insert(name);
  EXPECT_EQ(FlagsIn(RunHelp()), expected);
  // A heading that comes twice has another group's flags in between.
  std::set<std::string> headings;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(RunHelp(), '\n'))) {
    if (!absl::EndsWith(line, ":")) continue;
    EXPECT_TRUE(headings.insert(line).second) << line;
  }
  EXPECT_GT(headings.size(), 10u);
}

TEST(CliHelpTest, OverviewNamesEveryTopic) {
  for (const HelpTopic& topic : HelpTopics()) {
    EXPECT_THAT(CapstanHelp(), HasSubstr(absl::StrCat("\n  ", topic.name, " ")));
  }
}

TEST(CliHelpTest, HelpOfRunListsItsOwnFlagsAndThoseOfTheJob) {
  EXPECT_THAT(RunHelp(), AllOf(HasSubstr("--job=FILE"), HasSubstr("--run_dir=DIR"),
                               HasSubstr("--summary_json=FILE"), HasSubstr(JobFlagsHelp())));
}

TEST(CliHelpTest, HelpOfRunSaysWhenAJobStartsAgainAndWhenNot) {
  EXPECT_THAT(RunHelp(),
              AllOf(HasSubstr("--restart=never|on_failure[:N]"), HasSubstr("10 times in a row"),
                    HasSubstr("has never"), HasSubstr("does the lost one's step")));
}

TEST(CliHelpTest, HelpOfRunSaysWhatAProgramFindsInItsEnvironment) {
  EXPECT_THAT(RunHelp(),
              AllOf(HasSubstr("--worker_command=COMMAND"), HasSubstr("CAPSTAN_COORDINATOR"),
                    HasSubstr("LOCAL_WORLD_SIZE"), HasSubstr("MASTER_PORT.")));
}

TEST(CliHelpTest, HelpOfStatusListsItsFlag) {
  EXPECT_THAT(StatusHelp(), HasSubstr("--coordinator=HOST:PORT"));
}

TEST(CliHelpTest, HelpOfTopSaysHowItEnds) {
  EXPECT_THAT(TopHelp(), AllOf(HasSubstr("--coordinator=HOST:PORT"), HasSubstr("with q or")));
}

TEST(CliHelpTest, HelpOfSetListsItsFlags) {
  EXPECT_THAT(SetHelp(), AllOf(HasSubstr("--coordinator=HOST:PORT"), HasSubstr("--consistency="),
                               HasSubstr("--staleness="), HasSubstr("--table_staleness=")));
}

TEST(CliHelpTest, HelpOfCheckSaysHowAHistoryIsMade) {
  EXPECT_THAT(CheckHelp(), AllOf(HasSubstr("--record_history=DIR"), HasSubstr("--clock_skew_ms=N"),
                                 HasSubstr("--model=updates")));
  EXPECT_THAT(RunHelp(), HasSubstr("--record_history=DIR"));
}

TEST(CliHelpTest, HelpOfEvaluateSaysHowAModelIsMade) {
  EXPECT_THAT(EvaluateHelp(), AllOf(HasSubstr("--job=FILE"), HasSubstr("capstan run --output=")));
  EXPECT_THAT(RunHelp(), AllOf(HasSubstr("--output=FILE"), HasSubstr("--initial=FILE")));
}

TEST(CliHelpTest, HelpOfCheckpointListsItsFlagsAndSaysWhatACheckpointIs) {
  EXPECT_THAT(CheckpointHelp(),
              AllOf(HasSubstr("--coordinator=HOST:PORT"), HasSubstr("--list=DIR"),
                    HasSubstr("--verify=DIR"), HasSubstr("exactly one"),
                    HasSubstr("once its manifest is there"), HasSubstr("--restore=DIR")));
  EXPECT_THAT(RunHelp(), AllOf(HasSubstr("--checkpoint_dir=DIR"), HasSubstr("--restore=DIR")));
}

TEST(CliHelpTest, HelpOfExportSaysOfWhichMomentTheParametersAre) {
  EXPECT_THAT(ExportHelp(), AllOf(HasSubstr("--checkpoint=DIR"), HasSubstr("--output=FILE"),
                                  HasSubstr("--initial=FILE"), HasSubstr("Under\nssp and async"),
                                  HasSubstr("a moment of its\nown")));
}

TEST(CliHelpTest, HelpOfKeysSaysWhatStaysAndWhatIsReplaced) {
  EXPECT_THAT(KeysHelp(),
              AllOf(HasSubstr("--out=DIR"), HasSubstr("--from=DIR"), HasSubstr("--days=N"),
                    HasSubstr("--right=look|read|take_part"), HasSubstr("--hosts=HOST,..."),
                    HasSubstr("The list replaces the earlier one"),
                    HasSubstr("their CA and their token stay"), HasSubstr("cannot pose")));
  EXPECT_THAT(KeysHelp(),
              AllOf(HasSubstr("  look       capstan status and top, the live page"),
                    HasSubstr("  read       also: capstan get"),
                    HasSubstr("  take_part  also: workers"), HasSubstr("  operate    also: ")));
}

TEST(CliHelpTest, HelpOfReportListsItsFlagAndHowLinesBecomeFiner) {
  EXPECT_THAT(ReportHelp(), AllOf(HasSubstr("--output=FILE"), HasSubstr("--heartbeat_seconds")));
}

TEST(CliHelpTest, HelpOfTraceSaysHowTracesAreMadeAndOpened) {
  EXPECT_THAT(TraceHelp(),
              AllOf(HasSubstr("--output=FILE"), HasSubstr("capstan run --run_dir=digits"),
                    HasSubstr("--trace=FILE"), HasSubstr("https://ui.perfetto.dev")));
  EXPECT_THAT(RunHelp(), HasSubstr("  --trace\n"));
}

TEST(CliHelpTest, LinesFitAScreenOf105Columns) {
  for (const std::string& help : {CapstanHelp(), RunHelp(), StatusHelp(), SetHelp(), CheckHelp(),
                                  CheckpointHelp(), ExportHelp(), EvaluateHelp(), JobHelp(),
                                  KeysHelp(), ReportHelp(), TopHelp(), TraceHelp()}) {
    for (absl::string_view line : absl::StrSplit(help, '\n')) EXPECT_LE(line.size(), 105u) << line;
  }
}

}  // namespace
}  // namespace capstan
