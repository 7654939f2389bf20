#ifndef WORKER_DATASET_SPARSE_LINE_STREAM_H_
#define WORKER_DATASET_SPARSE_LINE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/dataset/sparse/byte_stream.h"

namespace capstan {

// Reads a file line by line. Its memory is in proportion to the longest line. "\n" and "\r\n" end a
// line; the last line needs no end. A UTF-8 byte order mark is left out. Not thread-safe.
class LineStream {
 public:
  LineStream(std::unique_ptr<ByteStream> bytes, size_t max_line_bytes);

  // The next line; false when there are no more lines. `line` is valid until the next call.
  // INVALID_ARGUMENT for OtherKind or a line of more than `max_line_bytes`, or ByteStream's errors.
  absl::StatusOr<bool> Next(absl::string_view* line);

  // Number of the last line from Next, counted from 1.
  int64_t line_number() const { return line_number_; }

  const std::string& source() const { return bytes_->source(); }

 private:
  // Appends bytes to the text. False at the end of the file.
  absl::StatusOr<bool> ReadMore();
  // INVALID_ARGUMENT if the file begins as OtherKind. To be called before its first line is taken.
  absl::Status CheckKind() const;
  // The text before `line_end`, which becomes the last line from Next.
  absl::string_view TakeLine(size_t line_end);

  const std::unique_ptr<ByteStream> bytes_;
  const size_t max_line_bytes_;
  std::vector<char> buffer_;
  // The text that was read, but not returned, in buffer_.
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t line_number_ = 0;
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_LINE_STREAM_H_
