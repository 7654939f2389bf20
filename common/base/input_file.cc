#include "common/base/input_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The reason of the last call of the system.
absl::Status SystemError() {
  const std::string text = std::strerror(errno);
  return errno == ENOENT ? absl::NotFoundError(text) : absl::UnavailableError(text);
}

bool BeginsLikeHtml(absl::string_view text) {
  absl::ConsumePrefix(&text, kByteOrderMark);
  text = absl::StripLeadingAsciiWhitespace(text);
  return absl::StartsWithIgnoreCase(text, "<!doctype html") ||
         absl::StartsWithIgnoreCase(text, "<html");
}

}  // namespace

absl::Status CheckIsFile(const struct stat& about) {
  if (S_ISREG(about.st_mode)) return absl::OkStatus();
  if (S_ISDIR(about.st_mode)) {
    return absl::InvalidArgumentError("it is a folder: give the file in it");
  }
  if (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode)) {
    return absl::InvalidArgumentError(
        "it is a pipe, which can be read only once: write what comes from it into a file, and give "
        "that");
  }
  return absl::InvalidArgumentError("it is a device, which need not have an end: give a file");
}

absl::Status CheckIsFile(const std::string& path) {
  struct stat about;
  return stat(path.c_str(), &about) == 0 ? CheckIsFile(about) : SystemError();
}

absl::StatusOr<std::string> ReadInputFile(const std::string& path, uint64_t most_bytes) {
  constexpr size_t kChunkBytes = size_t{64} << 10;
  // Without O_NONBLOCK, the call waits until somebody writes to a pipe.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return SystemError();
  const absl::Cleanup closer = [file] { close(file); };
  struct stat about;
  if (fstat(file, &about) != 0) return SystemError();
  RETURN_IF_ERROR(CheckIsFile(about));
  std::string bytes;
  bytes.reserve(std::min(static_cast<uint64_t>(about.st_size), most_bytes));
  std::vector<char> chunk(kChunkBytes);
  while (true) {
    const ssize_t count = read(file, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError();
    if (count == 0) return bytes;
    if (static_cast<size_t>(count) > most_bytes - bytes.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("it has more than ", most_bytes, " bytes: is it the right one?"));
    }
    bytes.append(chunk.data(), static_cast<size_t>(count));
  }
}

absl::StatusOr<std::string> ReadInputText(const std::string& path, uint64_t most_bytes) {
  ASSIGN_OR_RETURN(std::string text, ReadInputFile(path, most_bytes));
  if (const std::string kind = OtherKind(text); !kind.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("it is ", kind));
  }
  if (absl::StartsWith(text, kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

std::string OtherKind(absl::string_view beginning) {
  if (absl::StartsWith(beginning, "version https://git-lfs.github.com/spec/")) {
    return "a git-lfs pointer, which stands for the file: run git lfs pull in its folder";
  }
  if (BeginsLikeHtml(beginning)) {
    return "a page in HTML: download the file itself, not the page that shows it";
  }
  if (absl::StartsWith(beginning, "<?xml")) {
    return "a text in XML, such as a web server's error: download the file again";
  }
  if (absl::StartsWith(beginning, "\xFF\xFE") || absl::StartsWith(beginning, "\xFE\xFF")) {
    return "text in UTF-16: save it as UTF-8";
  }
  if (absl::StartsWith(beginning, "\x1f\x8b")) return "a gzip file: unpack it with gunzip";
  if (absl::StartsWith(beginning, "PK\x03\x04")) {
    return "a ZIP archive, as PyTorch's save and Excel write it: unpack it, or save it in the "
           "format that is expected";
  }
  return "";
}

}  // namespace capstan
