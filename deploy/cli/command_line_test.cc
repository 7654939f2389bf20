#include "deploy/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr CommandFlag kFlags[] = {{"job", "FILE", "The job."}, {"run_dir", "DIR", "A folder."}};

TEST(CommandLineTest, BothSpellingsAreReadAndTheLastOneWins) {
  const auto values = ParseCommandFlags({"--job=a", "--run_dir", "x y", "--job=b=c"}, kFlags);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ElementsAre(Pair("job", "b=c"), Pair("run_dir", "x y")));
}

TEST(CommandLineTest, UnknownFlagIsNamedWithThePossibleOnes) {
  EXPECT_EQ(
      ParseCommandFlags({"--jobb=a"}, kFlags).status().message(),
      "unknown flag \"--jobb=a\" (did you mean --job?); expected one of --job, --run_dir, or a "
      "flag that --help lists");
  EXPECT_THAT(std::string(ParseCommandFlags({"--step=1"}, kFlags).status().message()),
              StartsWith("unknown flag \"--step=1\"; expected"));
  EXPECT_THAT(
      std::string(
          ParseCommandFlags({"--step=1"}, kFlags, /*takes_job_flags=*/true).status().message()),
      StartsWith("unknown flag \"--step=1\" (did you mean --steps?); expected"));
}

TEST(CommandLineTest, ArgumentThatIsNoFlagIsRefused) {
  for (const char* arg : {"file", "-j", "--", "", "--=x"}) {
    EXPECT_EQ(ParseCommandFlags({arg}, kFlags).status().code(), absl::StatusCode::kInvalidArgument)
        << arg;
  }
}

TEST(CommandLineTest, ARunFolderNamesItsCoordinator) {
  const std::string folder = testing::TempDir() + "/named";
  std::filesystem::create_directories(folder);
  std::vector<std::string> args = {folder, "--keys=k"};
  EXPECT_THAT(std::string(NameCoordinator(args).message()),
              AllOf(StartsWith("expected a run folder"), HasSubstr("coordinator.port")));
  std::ofstream(folder + "/coordinator.port") << "127.0.0.1:45123\n";
  EXPECT_TRUE(NameCoordinator(args).ok());
  EXPECT_THAT(args, ElementsAre("--coordinator=127.0.0.1:45123", "--keys=k"));
  EXPECT_TRUE(NameCoordinator(args).ok()) << "flags stay as they are";
  EXPECT_EQ(args[0], "--coordinator=127.0.0.1:45123");
  args.insert(args.begin(), folder);
  EXPECT_THAT(std::string(NameCoordinator(args).message()), HasSubstr("got both"));
  args.clear();
  EXPECT_TRUE(NameCoordinator(args).ok());
}

TEST(CommandLineTest, FlagWithoutAValueIsRefused) {
  EXPECT_EQ(ParseCommandFlags({"--job"}, kFlags).status().message(),
            "flag --job: expected a value; got none");
}

TEST(CommandLineTest, AFlagThatIsTrueWhenItIsThereNeedsNoValue) {
  constexpr CommandFlag kSwitches[] = {{"trace", "", "Traces."}, {"job", "FILE", "The job."}};
  EXPECT_THAT(*ParseCommandFlags({"--trace", "--job=a"}, kSwitches),
              ElementsAre(Pair("job", "a"), Pair("trace", "true")));
  EXPECT_THAT(*ParseCommandFlags({"--trace", "--trace=false"}, kSwitches),
              ElementsAre(Pair("trace", "false")));
  EXPECT_EQ(ParseCommandFlags({"--trace=here"}, kSwitches).status().message(),
            "flag --trace: expected true or false, got here");
  EXPECT_THAT(CommandFlagsHelp(kSwitches),
              StartsWith("  --trace\n      Traces.\n  --job=FILE\n      The job.\n"));
}

TEST(CommandLineTest, HelpListsEveryFlagAndThoseOfAllCommands) {
  EXPECT_THAT(CommandFlagsHelp(kFlags),
              StartsWith("  --job=FILE\n      The job.\n  --run_dir=DIR\n      A folder.\n"
                         "  --flagfile=FILE\n"));
}

TEST(CommandLineTest, FlagsStandUnderTheirHeadings) {
  constexpr CommandFlag kGrouped[] = {{"job", "FILE", "The job.", "Input"},
                                      {"run_dir", "DIR", "A folder.", "Output"}};
  EXPECT_THAT(CommandFlagsHelp(kGrouped), StartsWith("Input:\n  --job=FILE\n      The job.\n\n"
                                                     "Output:\n  --run_dir=DIR\n      A folder.\n\n"
                                                     "General:\n  --flagfile=FILE\n"));
}

}  // namespace
}  // namespace capstan
