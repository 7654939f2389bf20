#include "worker/dataset/sparse/sparse_text_parser.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/dataset/sparse/binary_label.h"
#include "worker/dataset/sparse/sparse_batch.h"
#include "worker/dataset/text_reader.h"

namespace capstan {
namespace {

constexpr absl::string_view kBlanks = " \t";

// Removes the text before the first blank, and the blanks around it, from `line`.
absl::string_view TakeToken(absl::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(kBlanks), line->size()));
  const absl::string_view token =
      line->substr(0, std::min(line->find_first_of(kBlanks), line->size()));
  line->remove_prefix(token.size());
  line->remove_prefix(std::min(line->find_first_not_of(kBlanks), line->size()));
  return token;
}

// Removes the text before the first colon, and the colon, from `token`. False: there is no colon.
bool TakePart(absl::string_view* token, absl::string_view* part) {
  const size_t colon = token->find(':');
  if (colon == token->npos) return false;
  *part = token->substr(0, colon);
  token->remove_prefix(colon + 1);
  return true;
}

// Reads an integer in 0 ... `largest`.
template <typename Integer>
absl::StatusOr<Integer> ReadInteger(absl::string_view text, Integer largest,
                                    absl::string_view name) {
  Integer value = 0;
  if (absl::SimpleAtoi(text, &value) && value <= largest) return value;
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", name, " from 0 to ", largest, ", got ", QuoteToken(text)));
}

absl::StatusOr<float> ReadValue(absl::string_view text) {
  if (text == "1") return 1.0f;  // the value of nearly all features that were categories
  return ParseFiniteFloat(text);
}

class SparseTextParser : public LineParser {
 public:
  SparseTextParser(const SparseTextOptions& options, bool has_fields)
      : options_(options), has_fields_(has_fields) {}

  absl::string_view WithoutComment(absl::string_view line) const override {
    const size_t comment = line.find('#');
    if (comment == line.npos) return line;
    return absl::StripAsciiWhitespace(line.substr(0, comment));
  }

  absl::Status Add(absl::string_view line, SparseBatch* batch) override {
    ASSIGN_OR_RETURN(const float label, labels_.Read(TakeToken(&line)));
    while (!line.empty()) {
      const absl::string_view token = TakeToken(&line);
      RETURN_IF_ERROR(has_fields_ ? AddWithField(token, batch) : AddFeature(token, batch));
    }
    batch->EndSample(label);
    return absl::OkStatus();
  }

 private:
  absl::Status AddFeature(absl::string_view token, SparseBatch* batch) {
    absl::string_view index, value = token;
    if (!TakePart(&value, &index)) return WrongForm("index:value", token);
    ASSIGN_OR_RETURN(const uint64_t key, ReadInteger(index, options_.max_key, "an index"));
    const absl::StatusOr<float> number = ReadValue(value);
    if (!number.ok()) return Annotate(number.status(), absl::StrCat("index ", key));
    batch->AddKey(key, *number);
    return absl::OkStatus();
  }

  absl::Status AddWithField(absl::string_view token, SparseBatch* batch) {
    absl::string_view field, index, value = token;
    if (!TakePart(&value, &field) || !TakePart(&value, &index)) {
      return WrongForm("field:index:value", token);
    }
    ASSIGN_OR_RETURN(const uint32_t field_number,
                     ReadInteger(field, options_.max_field, "a field"));
    ASSIGN_OR_RETURN(const uint64_t key, ReadInteger(index, options_.max_key, "an index"));
    const absl::StatusOr<float> number = ReadValue(value);
    if (!number.ok()) return Annotate(number.status(), absl::StrCat("index ", key));
    batch->AddKey(key, *number, field_number);
    return absl::OkStatus();
  }

  static absl::Status WrongForm(absl::string_view form, absl::string_view token) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", form, ", got ", QuoteToken(token)));
  }

  const SparseTextOptions options_;
  const bool has_fields_;
  BinaryLabelReader labels_;
};

}  // namespace

std::unique_ptr<LineParser> MakeLibsvmLineParser(const SparseTextOptions& options) {
  return std::make_unique<SparseTextParser>(options, /*has_fields=*/false);
}

std::unique_ptr<LineParser> MakeLibffmLineParser(const SparseTextOptions& options) {
  return std::make_unique<SparseTextParser>(options, /*has_fields=*/true);
}

}  // namespace capstan
