#ifndef DEPLOY_CLI_PROGRAM_PATH_H_
#define DEPLOY_CLI_PROGRAM_PATH_H_

#include <string>

#include "absl/status/statusor.h"

namespace capstan {

// Path of this process's own program.
absl::StatusOr<std::string> OwnProgramPath();

// Finds a sibling of the program `own_path`, given by its path in the repository such as
// "server/capstan_server": in the same folder (as installed), in Bazel's runfiles, or in the tree
// of Bazel's outputs. NOT_FOUND names the places.
absl::StatusOr<std::string> FindProgram(const std::string& own_path, const std::string& program);

}  // namespace capstan

#endif  // DEPLOY_CLI_PROGRAM_PATH_H_
