#ifndef COMMON_MODEL_FILE_OPEN_FILE_H_
#define COMMON_MODEL_FILE_OPEN_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// The error of the system's last call for the file at `path`. NOT_FOUND, RESOURCE_EXHAUSTED: the
// disk is full, or UNAVAILABLE.
absl::Status FileError(const std::string& path, absl::string_view expected);

// An open file. Closes it at the end.
class OpenFile {
 public:
  // A regular file, or with O_DIRECTORY a folder. `flags`: as of open(2). The error names the file
  // and the system's reason, as all errors do.
  static absl::StatusOr<OpenFile> Open(const std::string& path, int flags);
  OpenFile(OpenFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  absl::StatusOr<uint64_t> SizeBytes() const;
  // Read and write at `offset`. Thread-safe. DATA_LOSS: the file ends before.
  absl::Status ReadAt(uint64_t offset, void* data, uint64_t bytes) const;
  // The XXH3-64 of the bytes from `offset` on. Thread-safe. Errors as ReadAt.
  absl::StatusOr<uint64_t> HashAt(uint64_t offset, uint64_t bytes) const;
  // RESOURCE_EXHAUSTED: the disk is full.
  absl::Status WriteAt(uint64_t offset, const void* data, uint64_t bytes) const;
  // Makes the file this long, and takes the room on the disk if the file system can.
  absl::Status TakeRoom(uint64_t bytes) const;
  // Lets the disk begin to take what was written. Sync still has to follow.
  void BeginSync() const;
  // Returns when the contents are on the disk.
  absl::Status Sync() const;

 private:
  OpenFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
};

}  // namespace capstan

#endif  // COMMON_MODEL_FILE_OPEN_FILE_H_
