#include "worker/dataset/gunzip.h"

#include <zlib.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // 32 KiB window; + 16 asks zlib for the gzip format
constexpr size_t kOutputBytes = size_t{256} << 10;
// zlib counts its input in 32 bits.
constexpr size_t kInputBytes = size_t{1} << 30;

// A z_stream that is cleaned up.
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

}  // namespace capstan
