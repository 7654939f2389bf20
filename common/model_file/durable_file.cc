#include "common/model_file/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model_file/open_file.h"

namespace capstan {
namespace {

absl::Status WriteNewFile(const std::string& path, absl::string_view bytes) {
  // After a failed sync, the system may take for written what it could not write. So each try has a
  // file of its own.
  unlink(path.c_str());
  ASSIGN_OR_RETURN(const OpenFile file,
                   OpenFile::Open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
  RETURN_IF_ERROR(file.WriteAt(0, bytes.data(), bytes.size()));
  return file.Sync();
}

}  // namespace

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status SyncFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenFile folder, OpenFile::Open(path, O_RDONLY | O_DIRECTORY));
  return folder.Sync();
}

absl::Status MakeFolders(const std::string& path, absl::string_view expected) {
  std::error_code error;
  const std::filesystem::path folder = path;
  if (std::filesystem::is_directory(folder, error)) return absl::OkStatus();
  const std::string parent = folder.has_parent_path() ? folder.parent_path().string() : ".";
  if (parent != path) RETURN_IF_ERROR(MakeFolders(parent, expected));
  if (mkdir(path.c_str(), 0777) != 0) {
    if (errno != EEXIST) return FileError(path, expected);
    // The path may end in a slash: then the folder is made already.
    if (!std::filesystem::is_directory(folder, error)) {
      errno = ENOTDIR;
      return FileError(path, expected);
    }
  }
  return SyncFolder(parent);
}

absl::Status WriteFileDurably(const std::string& path, absl::string_view bytes) {
  const std::string unfinished = absl::StrCat(path, kUnfinishedSuffix);
  absl::Status written = WriteNewFile(unfinished, bytes);
  if (written.ok() && std::rename(unfinished.c_str(), path.c_str()) != 0) {
    written = FileError(path, "to put the complete file there");
  }
  if (!written.ok()) {
    unlink(unfinished.c_str());  // The disk may be full.
    return written;
  }
  return SyncFolder(FolderOf(path));
}

}  // namespace capstan
