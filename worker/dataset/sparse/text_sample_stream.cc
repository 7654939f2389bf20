#include "worker/dataset/sparse/text_sample_stream.h"

#include <glog/logging.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<TextSampleStream>> TextSampleStream::Create(
    Options options, std::unique_ptr<LineParser> parser) {
  RETURN_IF_ERROR(CheckShare(options.share));
  if (options.path.empty()) {
    return absl::InvalidArgumentError(
        "expected the path of a file of samples, or - for standard input, got no path");
  }
  if (options.passes != 1 && options.path == kStandardInput) {
    return absl::InvalidArgumentError(
        "expected a file for several passes through the samples, got standard input, which can be "
        "read only once: give a file, or read one epoch");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<CancelSignal> cancel, CancelSignal::Create());
  std::unique_ptr<TextSampleStream> stream(
      new TextSampleStream(std::move(options), std::move(parser), std::move(cancel)));
  RETURN_IF_ERROR(stream->OpenFile());
  return stream;
}

TextSampleStream::TextSampleStream(Options options, std::unique_ptr<LineParser> parser,
                                   std::unique_ptr<CancelSignal> cancel)
    : options_(std::move(options)), parser_(std::move(parser)), cancel_(std::move(cancel)) {}

absl::Status TextSampleStream::OpenFile() {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> bytes,
                   ByteStream::Open(options_.path, cancel_.get()));
  lines_ = std::make_unique<LineStream>(std::move(bytes), options_.max_line_bytes);
  epoch_samples_ = 0;
  blank_line_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<size_t> TextSampleStream::Next(size_t most, SparseBatch* batch) {
  CHECK_GT(most, 0u);
  batch->Clear();
  if (status_.ok()) status_ = Fill(most, batch);
  if (!status_.ok()) return status_;
  return batch->size();
}

absl::Status TextSampleStream::Fill(size_t most, SparseBatch* batch) {
  while (batch->size() < most && !is_done_) {
    absl::string_view line;
    ASSIGN_OR_RETURN(const bool has_line, NextOwnLine(&line));
    if (!has_line) {
      RETURN_IF_ERROR(EndEpoch());
      continue;
    }
    absl::Status status = parser_->Add(line, batch);
    const size_t features = batch->keys().size() + batch->dense().size();
    if (status.ok() && features > options_.max_batch_features) {
      status = absl::ResourceExhaustedError(
          absl::StrCat("expected at most ", options_.max_batch_features,
                       " features in a batch, got more: use a smaller batch"));
    }
    if (!status.ok()) {
      return Annotate(status, absl::StrCat(lines_->source(), ", line ", lines_->line_number()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TextSampleStream::NextOwnLine(absl::string_view* line) {
  while (true) {
    ASSIGN_OR_RETURN(const bool has_line, lines_->Next(line));
    if (!has_line) return false;
    if (options_.has_header && lines_->line_number() == 1) continue;
    const bool had_text = !line->empty();
    *line = parser_->WithoutComment(*line);
    if (line->empty() && had_text) continue;
    // Tabs may separate columns without a value.
    if (line->find_first_not_of(" \r") == line->npos) {
      if (blank_line_ == 0) blank_line_ = lines_->line_number();
      continue;
    }
    if (blank_line_ != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          lines_->source(), ", line ", blank_line_,
          ": expected a sample, got a blank line: blank lines may only stand at the end"));
    }
    const uint64_t sample = epoch_samples_++;
    if (sample % options_.share.num_workers == options_.share.worker) return true;
  }
}

absl::Status TextSampleStream::EndEpoch() {
  if (epoch_samples_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        lines_->source(), ": expected at least one sample, got ",
        lines_->line_number() == 0 ? "an empty file" : "a file without lines of samples"));
  }
  pass_samples_ = epoch_samples_;
  if (epoch_samples_ <= options_.share.worker) {
    return absl::InvalidArgumentError(absl::StrCat(
        lines_->source(), ": expected a sample for each of ", options_.share.num_workers,
        " workers, got ", epoch_samples_, ": use fewer workers, or more samples"));
  }
  ++passes_done_;
  is_done_ = passes_done_ == options_.passes;
  return is_done_ ? absl::OkStatus() : OpenFile();
}

}  // namespace capstan
