#ifndef SERVER_COORDINATOR_STATE_STATE_FOLDER_H_
#define SERVER_COORDINATOR_STATE_STATE_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// The folder of a coordinator's state, with one level of folders in it. Paths are relative to it.
// What is made or written is durable when the call returns OK, and after an error it may be, or
// not. What is removed may come back with the power. Errors name the file and what the system says.
// Not thread-safe.
class StateFolder {
 public:
  virtual ~StateFolder() = default;

  // The names of what is in the folder `path`; empty: in this folder itself.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // ALREADY_EXISTS: it is there.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // Writes a file under another name, and then gives it this one. An existing one is replaced.
  virtual absl::Status Write(const std::string& path, absl::string_view bytes) = 0;
  // NOT_FOUND: there is no such file.
  virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
  // Removes a file, or a folder with its files.
  virtual absl::Status Remove(const std::string& path) = 0;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_STATE_STATE_FOLDER_H_
