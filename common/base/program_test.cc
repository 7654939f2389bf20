#include "common/base/program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/base/end_request.h"

namespace capstan {
namespace {

// Every program has the flag --undefok, with a value.

TEST(ProgramTest, ValuesStandBehindTheirFlagsOrInThem) {
  EXPECT_TRUE(ParseProgramFlags({"program", "--undefok", "a"}).ok());
  EXPECT_TRUE(ParseProgramFlags({"program", "--undefok=--b"}).ok());
}

TEST(ProgramTest, AFlagIsNoValueOfAnother) {
  for (const char* const flag : {"--undefok", "-undefok"}) {
    EXPECT_EQ(ParseProgramFlags({"program", flag, "--fromenv=f"}),
              absl::InvalidArgumentError("--undefok: expected a value, got the flag --fromenv=f; "
                                         "write --undefok=VALUE"));
  }
}

TEST(ProgramTest, UnknownFlagsAndWrongValuesAreNamed) {
  EXPECT_EQ(ParseProgramFlags({"program", "--undefko=a"}),
            absl::InvalidArgumentError("unknown flag --undefko; --help lists the flags"));
  EXPECT_EQ(ParseProgramFlags({"program", "--undefok"}),
            absl::InvalidArgumentError("--undefok: expected a value, got none; write "
                                       "--undefok=VALUE"));
  EXPECT_EQ(ParseProgramFlags({"program", "--noundefok"}),
            absl::InvalidArgumentError("unknown flag --noundefok; --help lists the flags"))
      << "it is not true or false";
}

TEST(ProgramDeathTest, TheVersionIsPrinted) {
  EXPECT_EXIT((void)ParseProgramFlags({"program", "--version"}), testing::ExitedWithCode(0), "");
}

TEST(ProgramTest, FlagFilesAreRead) {
  const std::string path = testing::TempDir() + "/program_flags";
  std::ofstream(path) << "--undefok=a\nstray\n";
  EXPECT_EQ(ParseProgramFlags({"program", "--flagfile=" + path}).message(),
            path +
                ":2: expected --name=value, a comment that begins with #, or nothing; got "
                "\"stray\"");
}

TEST(ProgramTest, WhatIsNoFlagIsNamed) {
  EXPECT_EQ(ParseProgramFlags({"program", "--undefok=a", "stray"}),
            absl::InvalidArgumentError("unexpected argument \"stray\"; --help lists the flags"));
}

TEST(ProgramDeathTest, ATerminationEndsAProcessThatDoesNotAwaitIt) {
  for (const int signal : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(
        {
          EndRequest end;
          EndOnTermination(&end);
          raise(signal);
          pause();
        },
        testing::ExitedWithCode(143), "");
  }
}

TEST(ProgramDeathTest, AnAwaitedTerminationIsAskedForAndTheSecondOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        EndRequest end;
        end.Await();
        EndOnTermination(&end);
        raise(SIGTERM);
        while (!end.is_asked()) std::this_thread::yield();
        std::cerr << "asked" << std::endl;
        raise(SIGTERM);
        pause();
      },
      testing::ExitedWithCode(143), "asked");
}

}  // namespace
}  // namespace capstan
