#ifndef WORKER_DATASET_SPARSE_TEXT_SAMPLE_STREAM_H_
#define WORKER_DATASET_SPARSE_TEXT_SAMPLE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/dataset/sparse/byte_stream.h"
#include "worker/dataset/sparse/line_stream.h"
#include "worker/dataset/sparse/sample_stream.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {

// A text format with one sample a line. Not thread-safe.
class LineParser {
 public:
  virtual ~LineParser() = default;

  // The line without a comment, if the format has comments. A comment alone leaves nothing.
  virtual absl::string_view WithoutComment(absl::string_view line) const { return line; }

  // Adds the sample of `line` to `batch`. INVALID_ARGUMENT "expected ..., got ..."; then `batch`
  // may hold a part of the sample.
  virtual absl::Status Add(absl::string_view line, SparseBatch* batch) = 0;
};

// Samples of a file of text. Blank lines may only stand at its end. The samples come in the order
// of the file: shuffle the file beforehand if its order has a meaning.
class TextSampleStream : public SampleStream {
 public:
  struct Options {
    // Required. A file, plain or gzip, or "-" for standard input.
    std::string path;
    // The first line names the columns.
    bool has_header = false;
    // How often the file is read; 0: without end. Standard input is read once.
    uint64_t passes = 1;
    SampleShare share;
    // A longer line is an error.
    size_t max_line_bytes = size_t{1} << 20;
    // More keys and dense features in a batch are an error. Each takes 4 ... 16 bytes.
    size_t max_batch_features = size_t{1} << 26;
  };

  // Opens the file. INVALID_ARGUMENT for a wrong option, or ByteStream::Open's errors.
  static absl::StatusOr<std::unique_ptr<TextSampleStream>> Create(
      Options options, std::unique_ptr<LineParser> parser);

  // Errors name the file and the line: those of the parser, LineStream and ByteStream,
  // INVALID_ARGUMENT for a file without samples, RESOURCE_EXHAUSTED for too large a batch.
  absl::StatusOr<size_t> Next(size_t most, SparseBatch* batch) override;
  uint64_t pass_samples() const override { return pass_samples_; }
  void Cancel() override { cancel_->Cancel(); }

 private:
  TextSampleStream(Options options, std::unique_ptr<LineParser> parser,
                   std::unique_ptr<CancelSignal> cancel);

  absl::Status OpenFile();
  absl::Status Fill(size_t most, SparseBatch* batch);
  // The next line of this worker; false at the end of the file.
  absl::StatusOr<bool> NextOwnLine(absl::string_view* line);
  // Checks the file at its end, and opens it again for the next pass.
  absl::Status EndEpoch();

  const Options options_;
  const std::unique_ptr<LineParser> parser_;
  const std::unique_ptr<CancelSignal> cancel_;
  std::unique_ptr<LineStream> lines_;
  uint64_t epoch_samples_ = 0;  // of all workers, in the file since it was opened
  uint64_t passes_done_ = 0;
  uint64_t pass_samples_ = 0;  // of the last complete epoch
  int64_t blank_line_ = 0;     // the first one; 0 before it
  bool is_done_ = false;
  absl::Status status_;
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_TEXT_SAMPLE_STREAM_H_
