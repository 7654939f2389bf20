#include "common/base/flag_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Args = std::vector<std::string>;

std::string PathOf(const std::string& name) { return testing::TempDir() + "/" + name; }

// Writes the file and returns the flag that reads it.
std::string FlagFile(const std::string& name, const std::string& text) {
  std::ofstream(PathOf(name), std::ios::trunc) << text;
  return "--flagfile=" + PathOf(name);
}

Args Expanded(Args args) {
  const absl::Status status = ExpandFlagFiles(&args);
  EXPECT_TRUE(status.ok()) << status;
  return args;
}

// The error, which must leave the arguments as they are.
std::string Error(const Args& args) {
  Args expanded = args;
  const absl::Status status = ExpandFlagFiles(&expanded);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(expanded, args);
  return std::string(status.message());
}

TEST(FlagFileTest, FlagsOfTheFileTakeItsPlace) {
  const std::string file = FlagFile("flags", "--seed=2\n--name=a b # c\n--trace");
  EXPECT_THAT(Expanded({"run", "--seed=1", file, "--seed=3"}),
              ElementsAre("run", "--seed=1", "--seed=2", "--name=a b # c", "--trace", "--seed=3"));
}

TEST(FlagFileTest, CommentsBlankLinesAndMarginsAreLeftOut) {
  EXPECT_THAT(Expanded({FlagFile("flags", "# A comment.\n\n  --seed=2 \t\r\n  # Another.\n")}),
              ElementsAre("--seed=2"));
}

TEST(FlagFileTest, EverySpellingIsRead) {
  FlagFile("flags", "--seed=2");
  const std::string path = PathOf("flags");
  EXPECT_THAT(Expanded({"--flagfile", path, "x"}), ElementsAre("--seed=2", "x"));
  EXPECT_THAT(Expanded({"-flagfile=" + path, "x"}), ElementsAre("--seed=2", "x"));
  EXPECT_THAT(Expanded({"-flagfile", path, "x"}), ElementsAre("--seed=2", "x"));
}

TEST(FlagFileTest, OtherArgumentsAndThoseBehindTwoDashesStay) {
  const Args args = {"flagfile=a", "--flagfiles=a", "--noflagfile", "--", "--flagfile=a"};
  EXPECT_EQ(Expanded(args), args);
}

TEST(FlagFileTest, AFileMayReadOthers) {
  const std::string inner = FlagFile("inner", "--seed=2\n");
  EXPECT_THAT(Expanded({FlagFile("outer", absl::StrCat("--a=1\n", inner, "\n", inner, "\n--b=1"))}),
              ElementsAre("--a=1", "--seed=2", "--seed=2", "--b=1"));
}

TEST(FlagFileTest, ALineThatIsNoFlagIsNamed) {
  for (const std::string line : {"seed=2", "-", "--", "-s", "run \x1b"}) {
    const std::string error = Error({FlagFile("flags", "# One\n--seed=2\n" + line)});
    EXPECT_THAT(error, StartsWith(PathOf("flags") + ":3: expected --name=value"));
    EXPECT_THAT(error, testing::Not(HasSubstr("\x1b")));
  }
}

TEST(FlagFileTest, AnErrorNamesEachFileOnTheWay) {
  const std::string inner = FlagFile("inner", "--seed=2\nx\n");
  EXPECT_THAT(Error({FlagFile("outer", "\n" + inner)}),
              StartsWith(absl::StrCat(PathOf("outer"), ":2: ", PathOf("inner"), ":2: expected ")));
}

TEST(FlagFileTest, AFileThatCannotBeReadIsNamed) {
  EXPECT_EQ(Error({"--flagfile=" + PathOf("none")}),
            absl::StrCat("--flagfile: expected a file of flags that can be read, got \"",
                         PathOf("none"), "\" (No such file or directory)"));
  EXPECT_THAT(Error({"--flagfile=" + testing::TempDir()}), HasSubstr("(it is a folder: "));
  EXPECT_THAT(Error({"--flagfile="}), HasSubstr("got \"\" (it needs a name)"));
  EXPECT_THAT(Error({"--flagfile"}), HasSubstr("got \"\" (it needs a name)"));
}

TEST(FlagFileTest, APipeOrADeviceIsRefusedAtOnce) {
  const std::string pipe = PathOf("pipe");
  unlink(pipe.c_str());  // of an earlier run
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(Error({"--flagfile=" + pipe}), HasSubstr("(it is a pipe, "));
  EXPECT_THAT(Error({"--flagfile=/dev/zero"}), HasSubstr("(it is a device, "));
  unlink(pipe.c_str());
}

TEST(FlagFileTest, AByteOrderMarkIsNoPartOfTheFirstFlag) {
  EXPECT_THAT(Expanded({FlagFile("flags", "\xEF\xBB\xBF--seed=2\r\n")}), ElementsAre("--seed=2"));
}

TEST(FlagFileTest, FilesInACircleAreNamed) {
  const std::string first = PathOf("first"), second = PathOf("second");
  FlagFile("second", "--flagfile=" + first);
  EXPECT_THAT(Error({FlagFile("first", "--seed=1\n--flagfile=" + second)}),
              absl::StrCat(first, ":2: ", second,
                           ":1: --flagfile: expected files that do not read each other in a "
                           "circle, got ",
                           first, " -> ", second, " -> ", first, "; remove this line"));
  // The same file under another name.
  FlagFile("own", absl::StrCat("--flagfile=", testing::TempDir(), "/./own"));
  EXPECT_THAT(Error({"--flagfile=" + PathOf("own")}), HasSubstr("in a circle"));
}

TEST(FlagFileTest, FilesThatDoubleEachTimeHaveABound) {
  FlagFile("double0", "--seed=1");
  for (int i = 1; i <= 20; ++i) {
    const std::string last = absl::StrCat("--flagfile=", PathOf(absl::StrCat("double", i - 1)));
    FlagFile(absl::StrCat("double", i), last + "\n" + last);
  }
  EXPECT_THAT(Error({"--flagfile=" + PathOf("double20")}),
              HasSubstr("expected at most 64 files of flags, got more"));
}

TEST(FlagFileTest, ALargeFileIsRefused) {
  const std::string file = FlagFile("flags", std::string((1 << 20) + 1, '#'));
  EXPECT_THAT(Error({file}), HasSubstr("(it has more than 1048576 bytes: "));
  EXPECT_THAT(Expanded({FlagFile("flags", std::string(1 << 20, '#'))}), ElementsAre());
}

}  // namespace
}  // namespace capstan
