#include "server/coordinator/state/posix_state_folder.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/input_file.h"
#include "common/base/status_macros.h"
#include "common/model_file/durable_file.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

constexpr char kLockFile[] = "lock";
// A message has less. It bounds the memory for reading somebody else's file.
constexpr uint64_t kMostFileBytes = uint64_t{2} << 30;

// Removes a file, or an empty folder.
absl::Status RemoveOne(const std::string& path) {
  return std::remove(path.c_str()) == 0 ? absl::OkStatus() : FileError(path, "to remove it");
}

// The names of what is in a folder.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator next(path, error), end; !error && next != end;
       next.increment(error)) {
    names.push_back(next->path().filename());
  }
  if (!error) return names;
  errno = error.value();
  return FileError(path, "a readable folder");
}

}  // namespace

absl::StatusOr<std::unique_ptr<PosixStateFolder>> PosixStateFolder::Open(const std::string& dir,
                                                                         bool take_over) {
  RETURN_IF_ERROR(MakeFolders(dir, "a folder for the coordinator's state"));
  ASSIGN_OR_RETURN(OpenFile lock, OpenFile::Open(absl::StrCat(dir, "/", kLockFile),
                                                 O_RDWR | O_CREAT | O_NOFOLLOW));
  // Ends with this process, however it ends.
  if (flock(lock.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      LOG(WARNING) << lock.path() << " cannot be locked (" << std::strerror(errno)
                   << "): nothing stops a second coordinator of this job from taking over";
    } else if (take_over) {
      LOG(WARNING) << "this coordinator takes over from another one that still uses " << dir;
    } else {
      return absl::AbortedError(absl::StrCat(
          "another coordinator uses ", dir,
          ": end it first; if it hangs or its machine is gone, start with --take_over"));
    }
  }
  return std::unique_ptr<PosixStateFolder>(new PosixStateFolder(dir, std::move(lock)));
}

std::string PosixStateFolder::PathOf(const std::string& path) const {
  return path.empty() ? dir_ : absl::StrCat(dir_, "/", path);
}

absl::StatusOr<std::vector<std::string>> PosixStateFolder::List(const std::string& path) {
  const std::string folder = PathOf(path);
  struct statx unused;
  // A network file system may keep an old list. This lets it ask for changes of other machines.
  statx(AT_FDCWD, folder.c_str(), AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &unused);
  return NamesIn(folder);
}

absl::Status PosixStateFolder::MakeFolder(const std::string& path) {
  const std::string folder = PathOf(path);
  if (mkdir(folder.c_str(), 0777) != 0) {
    if (errno != EEXIST) return FileError(folder, "to make this folder");
    return absl::AlreadyExistsError(absl::StrCat(folder, ": expected no such folder"));
  }
  return SyncFolder(FolderOf(folder));
}

absl::Status PosixStateFolder::Write(const std::string& path, absl::string_view bytes) {
  return WriteFileDurably(PathOf(path), bytes);
}

absl::StatusOr<std::string> PosixStateFolder::Read(const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadInputFile(PathOf(path), kMostFileBytes);
  if (!bytes.ok()) return Annotate(bytes.status(), PathOf(path));
  return bytes;
}

absl::Status PosixStateFolder::Remove(const std::string& path) {
  const std::string whole = PathOf(path);
  std::error_code error;
  if (fs::is_directory(fs::symlink_status(whole, error))) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(whole));
    for (const std::string& name : names) {
      RETURN_IF_ERROR(RemoveOne(absl::StrCat(whole, "/", name)));
    }
  }
  return RemoveOne(whole);
}

}  // namespace capstan
