#include "deploy/cli/program_path.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace capstan {

namespace fs = std::filesystem;

absl::StatusOr<std::string> OwnProgramPath() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (!error) return path.string();
  return absl::UnavailableError(absl::StrCat("cannot read /proc/self/exe: ", error.message()));
}

absl::StatusOr<std::string> FindProgram(const std::string& own_path, const std::string& program) {
  const fs::path folder = fs::path(own_path).parent_path();
  const std::vector<std::string> candidates = {
      folder / fs::path(program).filename(),
      absl::StrCat(own_path, ".runfiles/capstan/", program),
      (folder / "../.." / program).lexically_normal(),
  };
  for (const std::string& candidate : candidates) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("expected the program ", program, " at one of ",
                                          absl::StrJoin(candidates, ", "),
                                          "; build //deploy/cli:capstan, or put the programs of "
                                          "Capstan into one folder"));
}

}  // namespace capstan
