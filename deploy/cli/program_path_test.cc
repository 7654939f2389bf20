#include "deploy/cli/program_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace capstan {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

fs::path EmptyFolder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string MakeProgram(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

TEST(ProgramPathTest, OwnPathIsThatOfThisTest) {
  EXPECT_THAT(OwnProgramPath().value_or(""), EndsWith("program_path_test"));
}

TEST(ProgramPathTest, ProgramInTheSameFolderIsFoundFirst) {
  const fs::path root = EmptyFolder("same");
  MakeProgram(root / "deploy/cli/capstan.runfiles/capstan/server/capstan_server");
  const std::string expected = MakeProgram(root / "deploy/cli/capstan_server");
  EXPECT_EQ(FindProgram(root / "deploy/cli/capstan", "server/capstan_server").value_or(""),
            expected);
}

TEST(ProgramPathTest, ProgramInRunfilesIsFound) {
  const fs::path root = EmptyFolder("runfiles");
  const std::string expected =
      MakeProgram(root / "deploy/cli/capstan.runfiles/capstan/server/capstan_server");
  EXPECT_EQ(FindProgram(root / "deploy/cli/capstan", "server/capstan_server").value_or(""),
            expected);
}

TEST(ProgramPathTest, ProgramInBazelsOutputTreeIsFound) {
  const fs::path root = EmptyFolder("outputs");
  const std::string expected = MakeProgram(root / "server/capstan_server");
  EXPECT_EQ(FindProgram(root / "deploy/cli/capstan", "server/capstan_server").value_or(""),
            expected);
}

TEST(ProgramPathTest, MissingProgramIsNamedWithThePlaces) {
  const fs::path root = EmptyFolder("missing");
  const auto path = FindProgram(root / "deploy/cli/capstan", "server/capstan_server");
  EXPECT_EQ(path.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(path.status().message()),
              AllOf(HasSubstr("server/capstan_server"), HasSubstr("capstan.runfiles")));
}

}  // namespace
}  // namespace capstan
