#include "worker/dataset/sparse/line_stream.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "common/base/input_file.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

LineStream::LineStream(std::unique_ptr<ByteStream> bytes, size_t max_line_bytes)
    : bytes_(std::move(bytes)), max_line_bytes_(max_line_bytes), buffer_(kReadBytes) {}

absl::StatusOr<bool> LineStream::Next(absl::string_view* line) {
  size_t scanned_bytes = 0;  // without the end of a line
  while (true) {
    const char* const text = buffer_.data();
    const void* const newline =
        std::memchr(text + begin_ + scanned_bytes, '\n', end_ - begin_ - scanned_bytes);
    const size_t line_end =
        newline == nullptr ? end_ : static_cast<size_t>(static_cast<const char*>(newline) - text);
    const bool is_too_long = line_end - begin_ > max_line_bytes_;
    if (newline != nullptr || is_too_long) RETURN_IF_ERROR(CheckKind());
    if (is_too_long) {
      return absl::InvalidArgumentError(absl::StrCat(
          source(), ", line ", line_number_ + 1, ": expected at most ", max_line_bytes_,
          " bytes in a line, got more: give a file of text with one sample a line"));
    }
    if (newline != nullptr) {
      *line = TakeLine(line_end);
      begin_ = line_end + 1;
      return true;
    }
    scanned_bytes = end_ - begin_;
    ASSIGN_OR_RETURN(const bool has_more, ReadMore());
    if (has_more) continue;
    if (begin_ == end_) return false;
    RETURN_IF_ERROR(CheckKind());
    *line = TakeLine(end_);
    begin_ = end_;
    return true;
  }
}

absl::Status LineStream::CheckKind() const {
  if (line_number_ > 0) return absl::OkStatus();
  const std::string kind = OtherKind({buffer_.data(), end_});
  if (kind.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(source(), ": expected samples, got ", kind));
}

absl::string_view LineStream::TakeLine(size_t line_end) {
  const absl::string_view line(buffer_.data() + begin_, line_end - begin_);
  ++line_number_;
  return absl::StripSuffix(line_number_ == 1 ? absl::StripPrefix(line, kByteOrderMark) : line,
                           "\r");
}

absl::StatusOr<bool> LineStream::ReadMore() {
  if (begin_ > 0) {
    std::copy(buffer_.data() + begin_, buffer_.data() + end_, buffer_.data());
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  ASSIGN_OR_RETURN(const size_t count,
                   bytes_->Read(absl::MakeSpan(buffer_).subspan(end_, buffer_.size() - end_)));
  end_ += count;
  return count > 0;
}

}  // namespace capstan
