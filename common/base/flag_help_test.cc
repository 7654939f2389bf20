#include "common/base/flag_help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_split.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(FlagHelpTest, FlagsStandUnderTheirHeadings) {
  EXPECT_EQ(FormatFlagHelp({{"Trust", "--keys=DIR", "Folder."},
                            {"Trust", "--insecure", "Plaintext."},
                            {"Logs", "--log_format=text|json", "Form."}}),
            "Trust:\n"
            "  --keys=DIR\n      Folder.\n"
            "  --insecure\n      Plaintext.\n"
            "\n"
            "Logs:\n"
            "  --log_format=text|json\n      Form.\n");
}

TEST(FlagHelpTest, WithoutAGroupThereIsNoHeading) {
  EXPECT_EQ(FormatFlagHelp({{"", "--list=DIR", "Folder."}}), "  --list=DIR\n      Folder.\n");
}

TEST(FlagHelpTest, LinesAreCutBetweenWordsAt100Columns) {
  const std::string five_words = std::string(18, 'a') + " " + std::string(18, 'b') + " " +
                                 std::string(18, 'c') + " " + std::string(18, 'd') + " " +
                                 std::string(18, 'e');
  // 6 + 5 * 18 + 4 columns.
  EXPECT_EQ(FormatFlagHelp({{"", "--a", five_words + " f"}}),
            "  --a\n      " + five_words + "\n      f\n");
  EXPECT_EQ(FormatFlagHelp({{"", "--a", five_words + "e f"}}),
            "  --a\n      " + five_words.substr(0, five_words.rfind(' ')) + "\n      " +
                std::string(19, 'e') + " f\n");
}

// Every program has Abseil's flag --undefok.
TEST(FlagHelpTest, AProgramsFlagsHaveTheirHelpAndTheirDefault) {
  const std::string help = ProgramFlagsHelp({{"Parsing", "undefok", "NAME,..."}});
  EXPECT_THAT(help, StartsWith("Parsing:\n  --undefok=NAME,...\n      comma-separated list"));
  EXPECT_THAT(help, HasSubstr(" Default: none.\n\nGeneral:\n  --flagfile=FILE\n"));
  EXPECT_THAT(help, HasSubstr("\n  --help\n      Print this.\n  --version\n"));
}

TEST(FlagHelpTest, HelpIsFoundAnywhere) {
  EXPECT_TRUE(AsksForHelp({"--seed=1", "--help"}));
  EXPECT_TRUE(AsksForHelp({"-h"}));
  EXPECT_FALSE(AsksForHelp({"--helpful"}));
}

}  // namespace
}  // namespace capstan
