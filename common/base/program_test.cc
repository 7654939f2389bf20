#include "common/base/program.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/flags/flag.h"

ABSL_FLAG(std::string, folder, "", "a value");
ABSL_FLAG(bool, verbose, false, "a switch");

namespace capstan {
namespace {

TEST(ProgramTest, ValuesStandBehindTheirFlagsOrInThem) {
  EXPECT_TRUE(ParseProgramFlags({"program", "--verbose", "--folder", "a"}).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_folder), "a");
  EXPECT_TRUE(absl::GetFlag(FLAGS_verbose));
  EXPECT_TRUE(ParseProgramFlags({"program", "--folder=--b", "--noverbose"}).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_folder), "--b");
  EXPECT_FALSE(absl::GetFlag(FLAGS_verbose));
}

TEST(ProgramTest, AFlagIsNoValueOfAnother) {
  const absl::Status status = ParseProgramFlags({"program", "--folder", "--verbose"});
  EXPECT_EQ(status, absl::InvalidArgumentError("--folder: expected a value, got the flag "
                                               "--verbose; write --folder=VALUE"));
}

TEST(ProgramTest, WhatIsNoFlagIsNamed) {
  EXPECT_EQ(ParseProgramFlags({"program", "--verbose", "stray"}),
            absl::InvalidArgumentError("unexpected argument \"stray\"; --help lists the flags"));
}

}  // namespace
}  // namespace capstan
