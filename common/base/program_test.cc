#include "common/base/program.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace capstan {
namespace {

// Every program has the flag --undefok, with a value.

TEST(ProgramTest, ValuesStandBehindTheirFlagsOrInThem) {
  EXPECT_TRUE(ParseProgramFlags({"program", "--undefok", "a"}).ok());
  EXPECT_TRUE(ParseProgramFlags({"program", "--undefok=--b"}).ok());
}

TEST(ProgramTest, AFlagIsNoValueOfAnother) {
  for (const char* const flag : {"--undefok", "-undefok"}) {
    EXPECT_EQ(ParseProgramFlags({"program", flag, "--flagfile=f"}),
              absl::InvalidArgumentError("--undefok: expected a value, got the flag --flagfile=f; "
                                         "write --undefok=VALUE"));
  }
}

TEST(ProgramTest, WhatIsNoFlagIsNamed) {
  EXPECT_EQ(ParseProgramFlags({"program", "--undefok=a", "stray"}),
            absl::InvalidArgumentError("unexpected argument \"stray\"; --help lists the flags"));
}

}  // namespace
}  // namespace capstan
