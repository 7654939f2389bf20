#include "worker/dataset/libsvm_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/dataset/dataset.h"
#include "worker/dataset/gzip_file.h"
#include "worker/dataset/text_reader.h"

namespace capstan {
namespace {

// Removes the text before the first blank, and the blanks after it, from `line`.
absl::string_view TakeToken(absl::string_view* line) {
  const size_t length = std::min(line->find_first_of(" \t"), line->size());
  const absl::string_view token = line->substr(0, length);
  *line = absl::StripLeadingAsciiWhitespace(line->substr(length));
  return token;
}

// Collects the rows of one file in sparse form. Not thread-safe.
class SparseRows {
 public:
  explicit SparseRows(const LibsvmOptions& options) : options_(options) {}

  absl::Status AddLine(absl::string_view line) {
    if (line.empty()) {
      return absl::InvalidArgumentError("expected 'label index:value ...', got a blank line");
    }
    RETURN_IF_ERROR(AddLabel(TakeToken(&line)));
    int64_t last_index = 0;
    while (!line.empty()) {
      RETURN_IF_ERROR(AddEntry(TakeToken(&line), &last_index));
    }
    row_ends_.push_back(entries_.size());
    return absl::OkStatus();
  }

  absl::StatusOr<Dataset> ToDense() && {
    const uint64_t width = options_.features > 0 ? options_.features : largest_index_;
    if (width == 0) return absl::InvalidArgumentError("expected features, got labels only");
    RETURN_IF_ERROR(CheckDenseSize(labels_.size(), width));
    Dataset data;
    data.feature_count = static_cast<int>(width);
    data.class_count = 1 + *std::max_element(labels_.begin(), labels_.end());
    data.features.resize(labels_.size() * width);
    size_t entry = 0;
    for (size_t row = 0; row < row_ends_.size(); ++row) {
      for (; entry < row_ends_[row]; ++entry) {
        data.features[row * width + entries_[entry].index - 1] = entries_[entry].value;
      }
    }
    data.labels = std::move(labels_);
    return data;
  }

 private:
  struct Entry {
    uint32_t index;  // from 1
    float value;
  };

  absl::Status AddLabel(absl::string_view token) {
    const bool is_minus_one = token == "-1" || token == "-1.0";
    int32_t label = 0;
    if (!is_minus_one) {
      ASSIGN_OR_RETURN(label, ParseLabel(token, options_.classes));
    }
    has_minus_one_ |= is_minus_one;
    has_other_than_one_ |= !is_minus_one && label != 1;
    if (has_minus_one_ && has_other_than_one_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "label ", token, " in a file that mixes -1 with labels other than +1: use either -1 and ",
          "+1, or 0, 1, ..."));
    }
    labels_.push_back(label);
    return absl::OkStatus();
  }

  absl::Status AddEntry(absl::string_view token, int64_t* last_index) {
    const size_t colon = token.find(':');
    int64_t index = 0;
    if (colon == token.npos || !absl::SimpleAtoi(token.substr(0, colon), &index)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected index:value, got ", QuoteToken(token)));
    }
    RETURN_IF_ERROR(CheckIndex(index, *last_index));
    *last_index = index;
    const absl::StatusOr<float> value = ParseFiniteFloat(token.substr(colon + 1));
    if (!value.ok()) return Annotate(value.status(), absl::StrCat("feature ", index));
    entries_.push_back({static_cast<uint32_t>(index), *value});
    largest_index_ = std::max(largest_index_, static_cast<uint32_t>(index));
    return absl::OkStatus();
  }

  absl::Status CheckIndex(int64_t index, int64_t last_index) const {
    if (index < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a feature index from 1, got ", index));
    }
    if (index <= last_index) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ascending feature indices, got ", index, " after ", last_index));
    }
    const int64_t limit = options_.features > 0 ? options_.features : INT32_MAX;
    if (index > limit) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a feature index of at most ", limit, ", got ", index,
                       ": pass --features=N with the largest index of all files"));
    }
    return absl::OkStatus();
  }

  const LibsvmOptions options_;
  std::vector<int32_t> labels_;
  std::vector<Entry> entries_;
  std::vector<size_t> row_ends_;  // in entries_
  uint32_t largest_index_ = 0;
  bool has_minus_one_ = false;
  bool has_other_than_one_ = false;
};

}  // namespace

absl::StatusOr<Dataset> ParseLibsvm(absl::string_view text, absl::string_view source,
                                    const LibsvmOptions& options) {
  LineReader lines(text, source);
  SparseRows rows(options);
  absl::string_view line;
  while (lines.Next(&line)) {
    const absl::Status status = rows.AddLine(line);
    if (!status.ok()) return lines.AtLine(status);
  }
  if (lines.line_number() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": expected at least one sample, got an empty file"));
  }
  absl::StatusOr<Dataset> data = std::move(rows).ToDense();
  if (!data.ok()) return Annotate(data.status(), source);
  return data;
}

absl::StatusOr<Dataset> ReadLibsvm(const std::string& path, const LibsvmOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadGzipFile(path));
  return ParseLibsvm(text, absl::StrCat("data file ", path), options);
}

}  // namespace capstan
