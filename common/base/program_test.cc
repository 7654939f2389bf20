#include "common/base/program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
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

TEST(ProgramDeathTest, TheLogSaysWhereAProgramWasTerminated) {
  const auto begin_and = [](void (*end)()) {
    InitProgram("program", "usage");
    end();
  };
  EXPECT_EXIT(begin_and([] { std::terminate(); }), testing::KilledBySignal(SIGABRT),
              "std::terminate, without an exception.*; please report it with this: .*TestBody");
  // In a thread nobody catches it.
  EXPECT_EXIT(begin_and([] { std::thread([] { throw std::runtime_error("too late"); }).join(); }),
              testing::KilledBySignal(SIGABRT), "std::terminate, too late");
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
