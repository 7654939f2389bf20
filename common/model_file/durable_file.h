#ifndef COMMON_MODEL_FILE_DURABLE_FILE_H_
#define COMMON_MODEL_FILE_DURABLE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan {

// What outlasts a loss of power once these return OK. Errors are as of FileError.

// Follows the name of a file that is being written.
inline constexpr char kUnfinishedSuffix[] = ".unfinished";

// The folder in which `path` lies.
std::string FolderOf(const std::string& path);

// Files in a folder keep their names, or stay removed. Not what is in the files.
absl::Status SyncFolder(const std::string& path);

// Makes a folder and those around it. `expected` is for errors, as in "a folder for models".
absl::Status MakeFolders(const std::string& path, absl::string_view expected);

// Writes a file under its name with kUnfinishedSuffix, and then gives it its own name. An existing
// file is replaced. After an error it may be replaced, or not.
absl::Status WriteFileDurably(const std::string& path, absl::string_view bytes);

}  // namespace capstan

#endif  // COMMON_MODEL_FILE_DURABLE_FILE_H_
