#include "worker/dataset/sparse/byte_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/input_file.h"
#include "common/base/status_macros.h"
#include "worker/dataset/gzip_file.h"

namespace capstan {
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // 32 KiB window; + 16 asks zlib for the gzip format
constexpr size_t kMagicBytes = 2;         // of gzip
constexpr size_t kInputBytes = size_t{128} << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<CancelSignal>> CancelSignal::Create() {
  const int file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (file < 0) return absl::ErrnoToStatus(errno, "no event can be made");
  return std::unique_ptr<CancelSignal>(new CancelSignal(file));
}

CancelSignal::~CancelSignal() { close(file_); }

void CancelSignal::Cancel() { eventfd_write(file_, 1); }

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::Open(const std::string& path,
                                                             const CancelSignal* cancel) {
  if (path == kStandardInput) {
    return std::unique_ptr<ByteStream>(new ByteStream(STDIN_FILENO, "standard input", cancel));
  }
  std::string source = absl::StrCat("data file ", path);
  // Without O_NONBLOCK, the call waits until somebody writes to a named pipe.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 && errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat(
        source, " does not exist: check the path; every worker reads it on its own machine"));
  }
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat(source, " cannot be opened"));
  std::unique_ptr<ByteStream> stream(new ByteStream(file, std::move(source), cancel));
  struct stat info;
  const absl::Status is_file = fstat(file, &info) != 0 ? absl::OkStatus() : CheckIsFile(info);
  if (is_file.ok()) return stream;
  // A file is opened several times: at the start, and for each pass.
  return absl::InvalidArgumentError(
      absl::StrCat(stream->source_, ": expected a file, but ", is_file.message(),
                   S_ISDIR(info.st_mode) ? ""
                                         : ". Training data may also come from the standard input "
                                           "(--data_path=-)"));
}

ByteStream::ByteStream(int file, std::string source, const CancelSignal* cancel)
    : file_(file), source_(std::move(source)), cancel_(cancel), input_(kInputBytes) {}

ByteStream::~ByteStream() {
  if (file_ != STDIN_FILENO) close(file_);
}

void ByteStream::EndInflate::operator()(z_stream* z) const {
  inflateEnd(z);
  delete z;
}

absl::StatusOr<size_t> ByteStream::Read(absl::Span<char> output) {
  if (!is_format_known_) RETURN_IF_ERROR(DetectFormat());
  return gzip_ == nullptr ? ReadPlain(output) : Inflate(output);
}

absl::Status ByteStream::DetectFormat() {
  // A pipe may bring the bytes one by one.
  while (input_end_ < kMagicBytes && !is_at_end_) RETURN_IF_ERROR(FillInput());
  is_format_known_ = true;
  if (!IsGzip(absl::string_view(input_.data(), input_end_))) return absl::OkStatus();
  auto gzip = std::make_unique<z_stream>();
  if (inflateInit2(gzip.get(), kGzipWindowBits) != Z_OK) {
    return absl::ResourceExhaustedError(absl::StrCat(source_, ": out of memory in zlib"));
  }
  gzip_.reset(gzip.release());
  return absl::OkStatus();
}

absl::Status ByteStream::WaitForInput() const {
  pollfd files[] = {{cancel_->file(), POLLIN, 0}, {file_, POLLIN, 0}};
  while (poll(files, std::size(files), /*timeout=*/-1) < 0) {
    if (errno != EINTR) return absl::ErrnoToStatus(errno, "cannot be waited for");
  }
  if (files[0].revents != 0) return absl::CancelledError("reading was cancelled");
  return absl::OkStatus();
}

absl::Status ByteStream::FillInput() {
  while (true) {
    RETURN_IF_ERROR(Annotate(WaitForInput(), source_));
    const ssize_t count = read(file_, input_.data() + input_end_, input_.size() - input_end_);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, absl::StrCat(source_, " cannot be read"));
    is_at_end_ = count == 0;
    input_end_ += static_cast<size_t>(count);
    return absl::OkStatus();
  }
}

absl::StatusOr<size_t> ByteStream::ReadPlain(absl::Span<char> output) {
  if (!has_input() && !is_at_end_) {
    input_begin_ = input_end_ = 0;
    RETURN_IF_ERROR(FillInput());
  }
  const size_t count = std::min(output.size(), input_end_ - input_begin_);
  std::copy_n(input_.data() + input_begin_, count, output.data());
  input_begin_ += count;
  return count;
}

absl::StatusOr<size_t> ByteStream::Inflate(absl::Span<char> output) {
  // zlib counts in 32 bits.
  const size_t room = std::min(output.size(), size_t{UINT32_MAX});
  gzip_->next_out = reinterpret_cast<Bytef*>(output.data());
  gzip_->avail_out = static_cast<uInt>(room);
  while (gzip_->avail_out == room) {
    if (!has_input() && !is_at_end_) {
      input_begin_ = input_end_ = 0;
      RETURN_IF_ERROR(FillInput());
    }
    if (is_member_complete_) {
      // As gzip does. Zeros behind the last member may fill several buffers.
      while (has_input() && input_[input_begin_] == '\0') ++input_begin_;
      if (!has_input() && is_at_end_) return 0;
      if (!has_input()) continue;
      inflateReset(gzip_.get());
    }
    gzip_->next_in = reinterpret_cast<Bytef*>(input_.data() + input_begin_);
    gzip_->avail_in = static_cast<uInt>(input_end_ - input_begin_);
    const int code = inflate(gzip_.get(), Z_NO_FLUSH);
    input_begin_ = input_end_ - gzip_->avail_in;
    is_member_complete_ = code == Z_STREAM_END;
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      return CorruptGzip(gzip_->msg == nullptr ? "unknown reason" : gzip_->msg);
    }
    const bool has_output = gzip_->avail_out < room;
    if (!is_member_complete_ && is_at_end_ && !has_input() && !has_output) {
      return CorruptGzip("the end is missing");
    }
  }
  return room - gzip_->avail_out;
}

absl::Status ByteStream::CorruptGzip(const char* reason) const {
  return absl::DataLossError(
      absl::StrCat(source_, ": corrupt gzip data (", reason, "): copy the file again"));
}

}  // namespace capstan
