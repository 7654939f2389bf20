#include "worker/dataset/gzip_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/input_file.h"
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

absl::Status TooLarge(const FileLimits& limits) {
  return absl::ResourceExhaustedError(
      absl::StrCat("larger than ", limits.bytes, " bytes, the most supported: use fewer samples"));
}

// The bytes of a file, within limits.
class BoundedBytes {
 public:
  BoundedBytes(const FileLimits& limits, uint64_t expected_bytes) : limits_(limits) {
    bytes_.reserve(expected_bytes);
  }

  absl::Status Append(absl::string_view chunk) {
    if (chunk.size() > limits_.bytes - bytes_.size()) return TooLarge(limits_);
    const size_t newline = chunk.rfind('\n');
    if (newline != chunk.npos) line_begin_ = bytes_.size() + newline + 1;
    bytes_.append(chunk.data(), chunk.size());
    if (bytes_.size() - line_begin_ <= limits_.line_bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("expected at most ", limits_.line_bytes,
                     " bytes in a line, got more: give a file of text with one sample a line"));
  }

  std::string Take() && { return std::move(bytes_); }

 private:
  const FileLimits limits_;
  std::string bytes_;
  uint64_t line_begin_ = 0;  // of the last line in bytes_
};

// Compressed bytes have no lines.
bool HoldsGzip(int file) {
  char magic[2];
  return pread(file, magic, sizeof(magic), 0) == sizeof(magic) && IsGzip({magic, sizeof(magic)});
}

absl::StatusOr<std::string> ReadAll(int file, FileLimits limits) {
  struct stat info;
  if (fstat(file, &info) != 0) return absl::ErrnoToStatus(errno, "cannot be read");
  RETURN_IF_ERROR(Annotate(CheckIsFile(info), "expected a file"));
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size > limits.bytes) return TooLarge(limits);
  if (HoldsGzip(file)) limits.line_bytes = UINT64_MAX;
  BoundedBytes bytes(limits, size);
  std::vector<char> buffer(kReadBytes);
  while (true) {
    const ssize_t count = read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, "cannot be read");
    if (count == 0) return std::move(bytes).Take();
    RETURN_IF_ERROR(bytes.Append({buffer.data(), static_cast<size_t>(count)}));
  }
}

bool HasOnlyZeros(absl::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

}  // namespace

bool IsGzip(absl::string_view bytes) { return absl::StartsWith(bytes, "\x1f\x8b"); }

absl::StatusOr<std::string> Gunzip(absl::string_view bytes, const FileLimits& limits) {
  Stream stream;
  if (stream.init_code != Z_OK) return StepError(stream.z, stream.init_code);
  z_stream& z = stream.z;
  std::vector<char> buffer(kOutputBytes);
  BoundedBytes output(limits, /*expected_bytes=*/0);
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
    RETURN_IF_ERROR(output.Append({buffer.data(), buffer.size() - z.avail_out}));
    const bool input_ends = z.avail_in == 0 && bytes.empty();
    if (code == Z_STREAM_END) {
      const absl::string_view rest(reinterpret_cast<const char*>(z.next_in), z.avail_in);
      if (HasOnlyZeros(rest) && HasOnlyZeros(bytes)) return std::move(output).Take();
      inflateReset(&z);  // another member follows
    } else if (input_ends && z.avail_out > 0) {
      return absl::DataLossError("truncated gzip data");
    }
  }
}

absl::StatusOr<std::string> ReadGzipFile(const std::string& path, const FileLimits& limits) {
  const std::string source = absl::StrCat("data file ", path);
  // Without O_NONBLOCK, the call waits until somebody writes to a named pipe.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 && errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat(
        source, " does not exist: check the path; every worker reads it on its own machine"));
  }
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat(source, " cannot be opened"));
  const absl::Cleanup closer = [file] { close(file); };
  absl::StatusOr<std::string> bytes = ReadAll(file, limits);
  if (bytes.ok() && IsGzip(*bytes)) bytes = Gunzip(*bytes, limits);
  if (absl::IsDataLoss(bytes.status())) {
    return absl::DataLossError(
        absl::StrCat(source, ": ", bytes.status().message(), ": copy the file again"));
  }
  if (!bytes.ok()) return Annotate(bytes.status(), source);
  if (const std::string kind = OtherKind(*bytes); !kind.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": expected samples, got ", kind));
  }
  return bytes;
}

}  // namespace capstan
