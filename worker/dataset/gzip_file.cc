#include "worker/dataset/gzip_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/dataset/gunzip.h"

namespace capstan {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

absl::Status TooLarge(uint64_t max_bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("larger than ", max_bytes, " bytes, the most supported: use fewer samples"));
}

absl::StatusOr<std::string> ReadAll(int file, uint64_t max_bytes) {
  struct stat info;
  if (fstat(file, &info) != 0) return absl::ErrnoToStatus(errno, "cannot be read");
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError("expected a file, got a directory: give the file in it");
  }
  const uint64_t size = static_cast<uint64_t>(info.st_size);  // 0 for a pipe
  if (size > max_bytes) return TooLarge(max_bytes);
  std::string bytes;
  bytes.reserve(size);
  std::vector<char> buffer(kReadBytes);
  while (true) {
    const ssize_t count = read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, "cannot be read");
    if (count == 0) return bytes;
    if (bytes.size() + static_cast<size_t>(count) > max_bytes) return TooLarge(max_bytes);
    bytes.append(buffer.data(), static_cast<size_t>(count));
  }
}

}  // namespace

absl::StatusOr<std::string> ReadGzipFile(const std::string& path, uint64_t max_bytes) {
  const std::string source = absl::StrCat("data file ", path);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat(
        source, " does not exist: check the path; every worker reads it on its own machine"));
  }
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat(source, " cannot be opened"));
  const absl::Cleanup closer = [file] { close(file); };
  absl::StatusOr<std::string> bytes = ReadAll(file, max_bytes);
  if (bytes.ok() && IsGzip(*bytes)) bytes = Gunzip(*bytes, max_bytes);
  if (absl::IsDataLoss(bytes.status())) {
    return absl::DataLossError(
        absl::StrCat(source, ": ", bytes.status().message(), ": copy the file again"));
  }
  if (!bytes.ok()) return Annotate(bytes.status(), source);
  return bytes;
}

}  // namespace capstan
