#ifndef WORKER_DATASET_SPARSE_BYTE_STREAM_H_
#define WORKER_DATASET_SPARSE_BYTE_STREAM_H_

#include <zlib.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace capstan {

// Ends waits for input, from any thread and for good. Thread-safe.
class CancelSignal {
 public:
  // The system's error when the process has too many open files.
  static absl::StatusOr<std::unique_ptr<CancelSignal>> Create();
  ~CancelSignal();
  CancelSignal(const CancelSignal&) = delete;
  CancelSignal& operator=(const CancelSignal&) = delete;

  void Cancel();
  // A file descriptor. It can be read after Cancel.
  int file() const { return file_; }

 private:
  explicit CancelSignal(int file) : file_(file) {}

  const int file_;
};

// The path of standard input.
inline constexpr char kStandardInput[] = "-";

// Reads a file from front to back, and decompresses it if its first bytes are those of gzip. Holds
// a fixed amount of memory. Errors name the file. Not thread-safe.
class ByteStream {
 public:
  // `path` is a file or kStandardInput. `cancel` outlives the stream. NOT_FOUND, INVALID_ARGUMENT
  // for a directory, a pipe or a device, or the system's own error.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(const std::string& path,
                                                          const CancelSignal* cancel);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Waits for the next bytes, and returns their number; 0 at the end. CANCELLED, DATA_LOSS for
  // truncated or corrupt gzip, or the system's own error. `output` is not empty.
  absl::StatusOr<size_t> Read(absl::Span<char> output);

  // "data file PATH" or "standard input".
  const std::string& source() const { return source_; }

 private:
  struct EndInflate {
    void operator()(z_stream* z) const;
  };

  ByteStream(int file, std::string source, const CancelSignal* cancel);

  absl::Status DetectFormat();
  // Appends bytes of the file to the input, which must have room for them.
  absl::Status FillInput();
  absl::Status WaitForInput() const;
  absl::StatusOr<size_t> ReadPlain(absl::Span<char> output);
  absl::StatusOr<size_t> Inflate(absl::Span<char> output);
  absl::Status CorruptGzip(const char* reason) const;
  bool has_input() const { return input_begin_ < input_end_; }

  const int file_;
  const std::string source_;
  const CancelSignal* const cancel_;
  std::vector<char> input_;
  size_t input_begin_ = 0;
  size_t input_end_ = 0;
  bool is_at_end_ = false;  // of the file
  bool is_format_known_ = false;
  std::unique_ptr<z_stream, EndInflate> gzip_;  // null for a plain file
  bool is_member_complete_ = false;             // a gzip file has one or several members
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_BYTE_STREAM_H_
