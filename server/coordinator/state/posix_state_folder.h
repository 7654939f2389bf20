#ifndef SERVER_COORDINATOR_STATE_POSIX_STATE_FOLDER_H_
#define SERVER_COORDINATOR_STATE_POSIX_STATE_FOLDER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/model_file/open_file.h"
#include "server/coordinator/state/state_folder.h"

namespace capstan {

// A state folder on a disk. Its file `lock` is locked as long as this lives, so that nobody starts
// a second coordinator by mistake. Nothing else depends on the lock: not every file system has it.
class PosixStateFolder : public StateFolder {
 public:
  // Makes the folder if need be. ABORTED: another process has the lock. With `take_over` that is
  // only a warning.
  static absl::StatusOr<std::unique_ptr<PosixStateFolder>> Open(const std::string& dir,
                                                                bool take_over);

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status Write(const std::string& path, absl::string_view bytes) override;
  absl::StatusOr<std::string> Read(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;

 private:
  PosixStateFolder(std::string dir, OpenFile lock) : dir_(std::move(dir)), lock_(std::move(lock)) {}

  std::string PathOf(const std::string& path) const;

  const std::string dir_;
  const OpenFile lock_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_STATE_POSIX_STATE_FOLDER_H_
