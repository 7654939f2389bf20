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
  // No index may be larger than `max_index`; 0: any.
  SparseRows(uint32_t max_index, int classes)
      : max_index_(max_index == 0 ? INT32_MAX : max_index), label_reader_(classes) {}

  absl::Status Parse(absl::string_view text, absl::string_view source) {
    LineReader lines(text, source);
    absl::string_view line;
    while (lines.Next(&line)) {
      const absl::Status status = AddLine(line);
      if (!status.ok()) return lines.AtLine(status);
    }
    if (!labels_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": expected at least one sample, got ",
                     lines.line_number() == 0 ? "an empty file" : "comments only"));
  }

  // Whether indices begin at 0. They do if one is 0.
  bool has_index_zero() const { return has_index_zero_; }
  uint32_t largest_index() const { return largest_index_; }

  // The indices from `first_index` on, which is 0 or 1, as `width` features.
  absl::StatusOr<Dataset> ToDense(uint32_t first_index, uint64_t width) && {
    if (width == 0) return absl::InvalidArgumentError("expected features, got labels only");
    if (!entries_.empty() && largest_index_ - first_index >= width) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a feature index of at most ", width - 1, " for ", width,
                       " features, as an index is 0, got ", largest_index_,
                       ": pass --features=N with 1 + the largest index of all files"));
    }
    RETURN_IF_ERROR(CheckDenseSize(labels_.size(), width));
    Dataset data;
    data.feature_count = static_cast<int>(width);
    data.first_feature = static_cast<int>(first_index);
    data.class_count = 1 + *std::max_element(labels_.begin(), labels_.end());
    data.features.resize(labels_.size() * width);
    size_t entry = 0;
    for (size_t row = 0; row < row_ends_.size(); ++row) {
      for (; entry < row_ends_[row]; ++entry) {
        data.features[row * width + entries_[entry].index - first_index] = entries_[entry].value;
      }
    }
    data.labels = std::move(labels_);
    return data;
  }

 private:
  struct Entry {
    uint32_t index;  // as in the file
    float value;
  };

  absl::Status AddLine(absl::string_view line) {
    if (line.empty()) {
      return absl::InvalidArgumentError("expected 'label index:value ...', got a blank line");
    }
    line = absl::StripTrailingAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) return absl::OkStatus();  // a comment
    ASSIGN_OR_RETURN(labels_.emplace_back(), label_reader_.Read(TakeToken(&line)));
    int64_t last_index = -1;
    while (!line.empty()) {
      RETURN_IF_ERROR(AddEntry(TakeToken(&line), &last_index));
    }
    row_ends_.push_back(entries_.size());
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
    has_index_zero_ |= index == 0;
    largest_index_ = std::max(largest_index_, static_cast<uint32_t>(index));
    return absl::OkStatus();
  }

  absl::Status CheckIndex(int64_t index, int64_t last_index) const {
    if (index < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a feature index from 0, got ", index));
    }
    if (index <= last_index) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ascending feature indices, got ", index, " after ", last_index));
    }
    if (index > max_index_) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a feature index of at most ", max_index_, ", got ", index,
                       ": pass --features=N with the largest index of all files"));
    }
    return absl::OkStatus();
  }

  const int64_t max_index_;
  LabelReader label_reader_;
  std::vector<int32_t> labels_;
  std::vector<Entry> entries_;
  std::vector<size_t> row_ends_;  // in entries_
  uint32_t largest_index_ = 0;
  bool has_index_zero_ = false;
};

absl::StatusOr<SparseRows> ReadRows(const std::string& path, uint32_t max_index, int classes) {
  ASSIGN_OR_RETURN(const std::string text, ReadGzipFile(path, kTextLimits));
  SparseRows rows(max_index, classes);
  RETURN_IF_ERROR(rows.Parse(text, absl::StrCat("data file ", path)));
  return rows;
}

// The number of features in indices of `first_index` ... `largest_index`.
uint64_t WidthOf(uint32_t first_index, uint32_t largest_index, const LibsvmOptions& options) {
  if (options.features > 0) return options.features;
  return uint64_t{largest_index} + 1 - first_index;
}

absl::StatusOr<Dataset> ToDense(SparseRows rows, absl::string_view source,
                                const LibsvmOptions& options) {
  const uint32_t first_index = rows.has_index_zero() ? 0 : 1;
  const uint64_t width = WidthOf(first_index, rows.largest_index(), options);
  absl::StatusOr<Dataset> data = std::move(rows).ToDense(first_index, width);
  if (!data.ok()) return Annotate(data.status(), source);
  return data;
}

}  // namespace

absl::StatusOr<Dataset> ParseLibsvm(absl::string_view text, absl::string_view source,
                                    const LibsvmOptions& options) {
  SparseRows rows(options.features, options.classes);
  RETURN_IF_ERROR(rows.Parse(text, source));
  return ToDense(std::move(rows), source, options);
}

absl::StatusOr<Dataset> ReadLibsvm(const std::string& path, const LibsvmOptions& options) {
  ASSIGN_OR_RETURN(SparseRows rows, ReadRows(path, options.features, options.classes));
  return ToDense(std::move(rows), absl::StrCat("data file ", path), options);
}

absl::StatusOr<DataSplit> ReadLibsvmSplit(const std::string& train_path,
                                          const std::string& test_path,
                                          const LibsvmOptions& options) {
  ASSIGN_OR_RETURN(SparseRows train, ReadRows(train_path, options.features, options.classes));
  const uint32_t largest = train.largest_index();
  const uint32_t max_index = options.features > 0 ? options.features : largest;
  ASSIGN_OR_RETURN(SparseRows test, ReadRows(test_path, max_index, options.classes));
  const uint32_t first_index = train.has_index_zero() || test.has_index_zero() ? 0 : 1;
  const uint64_t width = WidthOf(first_index, largest, options);
  absl::StatusOr<Dataset> dense_train = std::move(train).ToDense(first_index, width);
  if (!dense_train.ok())
    return Annotate(dense_train.status(), absl::StrCat("data file ", train_path));
  absl::StatusOr<Dataset> dense_test = std::move(test).ToDense(first_index, width);
  if (!dense_test.ok()) return Annotate(dense_test.status(), absl::StrCat("data file ", test_path));
  return DataSplit{*std::move(dense_train), *std::move(dense_test), /*warning=*/""};
}

}  // namespace capstan
