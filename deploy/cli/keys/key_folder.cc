#include "deploy/cli/keys/key_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

std::string UnfinishedName(const std::string& name) { return absl::StrCat(name, ".unfinished"); }

bool WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::absolute(path, error).parent_path();
  if (!error) std::filesystem::create_directories(parent, error);
  // The second call is for a umask that takes rights from the owner.
  const bool is_made = !error && mkdir(path.c_str(), 0700) == 0 && chmod(path.c_str(), 0700) == 0;
  if (is_made || (!error && errno == EEXIST)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("expected to make the folder ", path, ", got \"",
                                             error ? error.message() : std::strerror(errno),
                                             "\"; choose another"));
}

}  // namespace

absl::StatusOr<KeyFolder> KeyFolder::Open(const std::string& path) {
  RETURN_IF_ERROR(MakeFolder(path));
  KeyFolder folder(path, open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat about;
  if (folder.fd_ < 0 || fstat(folder.fd_, &about) != 0) {
    return absl::UnavailableError(absl::StrCat("expected a folder ", path, ", got \"",
                                               std::strerror(errno), "\"; choose another"));
  }
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     ": expected a folder that only its owner may write to, got one for "
                     "others, too; chmod go-w it, or choose another"));
  }
  // File systems without locks are taken as they are.
  if (flock(folder.fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": another process makes keys there; wait until it is done"));
  }
  return folder;
}

KeyFolder::~KeyFolder() {
  if (fd_ >= 0) close(fd_);
}

bool KeyFolder::Has(const std::string& name) const {
  struct stat unused;
  return fstatat(fd_, name.c_str(), &unused, AT_SYMLINK_NOFOLLOW) == 0;
}

absl::Status KeyFolder::Write(absl::Span<const File> files) const {
  for (const File& file : files) RETURN_IF_ERROR(WriteUnfinished(file));
  for (const File& file : files) {
    if (renameat(fd_, UnfinishedName(file.name).c_str(), fd_, file.name.c_str()) != 0) {
      return Failure("replace", file.name);
    }
  }
  return fsync(fd_) == 0 ? absl::OkStatus() : Failure("keep", ".");
}

absl::Status KeyFolder::WriteUnfinished(const File& file) const {
  const std::string name = UnfinishedName(file.name);
  unlinkat(fd_, name.c_str(), 0);  // of an earlier try
  const int fd = openat(fd_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return Failure("make", name);
  const bool is_written =
      fchmod(fd, file.is_private ? 0600 : 0644) == 0 && WriteAll(fd, file.text) && fsync(fd) == 0;
  const absl::Status result = is_written ? absl::OkStatus() : Failure("write", name);
  close(fd);
  return result;
}

absl::Status KeyFolder::Failure(const std::string& what, const std::string& name) const {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path_, "/", name, ": ",
                                             std::strerror(errno),
                                             "; make room for it, or choose another folder"));
}

}  // namespace capstan
