#include "common/model_file/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/input_file.h"
#include "common/base/status_macros.h"

namespace capstan {

absl::Status FileError(const std::string& path, absl::string_view expected) {
  const int error = errno;
  const std::string text =
      absl::StrCat(path, ": expected ", expected, ", got \"", std::strerror(error), "\"");
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

absl::StatusOr<OpenFile> OpenFile::Open(const std::string& path, int flags) {
  // Does not wait for the other end of a pipe.
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor < 0) {
    const bool reads = (flags & O_ACCMODE) == O_RDONLY;
    return FileError(path, reads ? "a readable file" : "a file that can be written");
  }
  OpenFile file(path, descriptor);
  struct stat status;
  if (fstat(descriptor, &status) != 0) return FileError(path, "a file");
  if ((flags & O_DIRECTORY) != 0) return file;
  RETURN_IF_ERROR(Annotate(CheckIsFile(status), absl::StrCat(path, ": expected a file")));
  return file;
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<uint64_t> OpenFile::SizeBytes() const {
  struct stat status;
  if (fstat(descriptor_, &status) != 0) return FileError(path_, "to learn its size");
  return static_cast<uint64_t>(status.st_size);
}

absl::Status OpenFile::ReadAt(uint64_t offset, void* data, uint64_t bytes) const {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = pread(descriptor_, next, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(path_, absl::StrCat("to read ", bytes, " bytes"));
    if (count == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": expected ", bytes, " more bytes at ", offset, ", but it ends"));
    }
    next += count;
    offset += count;
    bytes -= count;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> OpenFile::HashAt(uint64_t offset, uint64_t bytes) const {
  constexpr uint64_t kBlockBytes = 1 << 20;
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::string block(std::min(kBlockBytes, bytes), '\0');
  for (uint64_t done = 0; done < bytes; done += block.size()) {
    block.resize(std::min(kBlockBytes, bytes - done));
    RETURN_IF_ERROR(ReadAt(offset + done, block.data(), block.size()));
    XXH3_64bits_update(state.get(), block.data(), block.size());
  }
  return XXH3_64bits_digest(state.get());
}

absl::Status OpenFile::WriteAt(uint64_t offset, const void* data, uint64_t bytes) const {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = pwrite(descriptor_, next, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return FileError(path_, absl::StrCat("to write ", bytes, " bytes"));
    next += count;
    offset += count;
    bytes -= count;
  }
  return absl::OkStatus();
}

absl::Status OpenFile::TakeRoom(uint64_t bytes) const {
  const auto size = static_cast<off_t>(bytes);
  if (fallocate(descriptor_, /*mode=*/0, 0, size) == 0) return absl::OkStatus();
  // Not every file system can take room before it is used.
  if (errno == EOPNOTSUPP && ftruncate(descriptor_, size) == 0) return absl::OkStatus();
  return FileError(path_, absl::StrCat("room for ", bytes, " bytes"));
}

void OpenFile::BeginSync() const {
  sync_file_range(descriptor_, /*offset=*/0, /*nbytes=*/0, SYNC_FILE_RANGE_WRITE);
}

absl::Status OpenFile::Sync() const {
  // Not every file system can sync a folder.
  if (fsync(descriptor_) != 0 && errno != EINVAL) return FileError(path_, "to sync it");
  return absl::OkStatus();
}

}  // namespace capstan
