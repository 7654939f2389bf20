#ifndef DEPLOY_CLI_KEYS_KEY_FOLDER_H_
#define DEPLOY_CLI_KEYS_KEY_FOLDER_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace capstan {

// A folder of keys that this process writes, and no other one meanwhile. Not thread-safe.
class KeyFolder {
 public:
  struct File {
    std::string name;
    std::string text;
    bool is_private;  // mode 0600, else 0644
  };

  // Makes the folder with mode 0700 and its parents, if need be, and locks it until the object's
  // end. FAILED_PRECONDITION: another process has locked it, or others than its owner may write to
  // it. UNAVAILABLE: the system refuses.
  static absl::StatusOr<KeyFolder> Open(const std::string& path);

  KeyFolder(KeyFolder&& other) : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  ~KeyFolder();

  bool Has(const std::string& name) const;
  // Writes all files under temporary names, and then gives them their names in the order of the
  // list. So after a crash each file is the earlier one or the new one, and the new ones are the
  // first ones of the list. Modes do not depend on the umask. UNAVAILABLE names the file.
  absl::Status Write(absl::Span<const File> files) const;

 private:
  KeyFolder(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  absl::Status WriteUnfinished(const File& file) const;
  // The error of the last call of the system, which could not do `what` with a file.
  absl::Status Failure(const std::string& what, const std::string& name) const;

  std::string path_;
  int fd_;  // of the folder; -1: moved away
};

}  // namespace capstan

#endif  // DEPLOY_CLI_KEYS_KEY_FOLDER_H_
