#include "worker/dataset/gzip_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // 32 KiB window; + 16 asks zlib for the gzip format
constexpr size_t kOutputBytes = size_t{256} << 10;
// zlib counts its input in 32 bits.
constexpr size_t kInputBytes = size_t{1} << 30;

// Owns a z_stream.
struct Stream {
  Stream() : init_code(inflateInit2(&z, kGzipWindowBits)) {}
  ~Stream() { inflateEnd(&z); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  z_stream z = {};
  int init_code;
};

absl::Status StepError(const z_stream& z, int code) {
  if (code == Z_MEM_ERROR) return absl::ResourceExhaustedError("out of memory in zlib");
  return absl::DataLossError(
      absl::StrCat("corrupt gzip data (", z.msg == nullptr ? "unknown reason" : z.msg, ")"));
}

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

bool IsGzip(absl::string_view bytes) { return absl::StartsWith(bytes, "\x1f\x8b"); }

absl::StatusOr<std::string> Gunzip(absl::string_view bytes, uint64_t max_bytes) {
  Stream stream;
  if (stream.init_code != Z_OK) return StepError(stream.z, stream.init_code);
  z_stream& z = stream.z;
  std::vector<char> buffer(kOutputBytes);
  std::string output;
  while (true) {
    if (z.avail_in == 0) {
      const absl::string_view input = bytes.substr(0, kInputBytes);
      z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
      z.avail_in = static_cast<uInt>(input.size());
      bytes.remove_prefix(input.size());
    }
    z.next_out = reinterpret_cast<Bytef*>(buffer.data());
    z.avail_out = static_cast<uInt>(buffer.size());
    const int code = inflate(&z, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) return StepError(z, code);
    output.append(buffer.data(), buffer.size() - z.avail_out);
    if (output.size() > max_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("decompresses to more than ", max_bytes, " bytes, the most supported"));
    }
    const bool input_ends = z.avail_in == 0 && bytes.empty();
    if (code == Z_STREAM_END) {
      if (input_ends) return output;
      inflateReset(&z);  // another member follows
    } else if (input_ends && z.avail_out > 0) {
      return absl::DataLossError("truncated gzip data");
    }
  }
}

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
