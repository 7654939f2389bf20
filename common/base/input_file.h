#ifndef COMMON_BASE_INPUT_FILE_H_
#define COMMON_BASE_INPUT_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// Files that a user names, and a program reads. A pipe or a device in their place is refused:
// whoever reads one may wait for ever, or never come to its end. An error says only what is wrong,
// as in "it is a pipe ...", and what to do. The caller names the file.

// INVALID_ARGUMENT unless it is a regular file.
absl::Status CheckIsFile(const struct stat& about);
// The same for what lies at `path`. NOT_FOUND, or UNAVAILABLE: the system refuses.
absl::Status CheckIsFile(const std::string& path);

// The bytes of a file. Waits for nobody. INVALID_ARGUMENT: it is no regular file, or has more than
// `most_bytes`. NOT_FOUND, or UNAVAILABLE: the system refuses.
absl::StatusOr<std::string> ReadInputFile(const std::string& path, uint64_t most_bytes);

// The same for text in UTF-8, without its byte order mark. INVALID_ARGUMENT also for OtherKind.
absl::StatusOr<std::string> ReadInputText(const std::string& path, uint64_t most_bytes);

// What a file with this beginning is, and what to do, if people often take it for another one:
// "a git-lfs pointer ...", "a page in HTML ...", "text in UTF-16 ...". Empty: it may be right.
std::string OtherKind(absl::string_view beginning);

}  // namespace capstan

#endif  // COMMON_BASE_INPUT_FILE_H_
