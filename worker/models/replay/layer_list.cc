#include "worker/models/replay/layer_list.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "worker/dataset/gzip_file.h"
#include "worker/dataset/text_reader.h"

namespace capstan {
namespace {

constexpr absl::string_view kHeader = "layer,tensor,elements,million_macs";
constexpr uint64_t kMaxElements = uint64_t{1} << 40;
constexpr uint64_t kMaxListBytes = uint64_t{16} << 20;

struct BuiltIn {
  absl::string_view name;
  absl::string_view text;
};

constexpr BuiltIn kBuiltIn[] = {
    {
        "vgg16",
#include "worker/models/replay/layers/vgg16.csv.inc"
    },
    {
        "resnet50",
#include "worker/models/replay/layers/resnet50.csv.inc"
    },
    {
        "bert_base",
#include "worker/models/replay/layers/bert_base.csv.inc"
    },
    {
        "bert_large",
#include "worker/models/replay/layers/bert_large.csv.inc"
    },
};

absl::Status Unexpected(absl::string_view expected, absl::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", expected, ", got ", QuoteToken(got)));
}

absl::StatusOr<LayerTensor> ParseTensor(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  if (fields.size() != 4) return Unexpected(absl::StrCat("4 fields, ", kHeader), line);
  LayerTensor tensor;
  if (!absl::SimpleAtoi(fields[0], &tensor.layer) || tensor.layer < 0) {
    return Unexpected("the number of a layer", fields[0]);
  }
  tensor.name = std::string(absl::StripAsciiWhitespace(fields[1]));
  if (tensor.name.empty()) return Unexpected("the name of a tensor", fields[1]);
  if (!absl::SimpleAtoi(fields[2], &tensor.elements) || tensor.elements == 0 ||
      tensor.elements >= kMaxElements) {
    return Unexpected("a number of elements from 1 to below 2^40", fields[2]);
  }
  if (!absl::SimpleAtod(fields[3], &tensor.million_macs) || tensor.million_macs < 0 ||
      !std::isfinite(tensor.million_macs)) {
    return Unexpected("million multiply-accumulates, 0 or more", fields[3]);
  }
  return tensor;
}

// INVALID_ARGUMENT if `tensor` must not follow those in `before`.
absl::Status CheckNext(const LayerTensor& tensor, const std::vector<LayerTensor>& before,
                       std::set<std::string>* names) {
  const int last = before.empty() ? -1 : before.back().layer;
  if (tensor.layer != last + 1 && (tensor.layer != last || before.empty())) {
    return Unexpected(absl::StrCat("layer ", last + 1, before.empty() ? "" : " or the one before"),
                      absl::StrCat(tensor.layer));
  }
  if (!names->insert(tensor.name).second) {
    return Unexpected("a name that no other tensor has", tensor.name);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<LayerTensor>> ParseLayerList(absl::string_view text,
                                                        absl::string_view source) {
  LineReader lines(text, source);
  absl::string_view line;
  if (!lines.Next(&line) || line != kHeader) {
    return lines.AtLine(Unexpected(absl::StrCat("the header ", kHeader), line));
  }
  std::vector<LayerTensor> tensors;
  std::set<std::string> names;
  double million_macs = 0;
  while (lines.Next(&line)) {
    absl::StatusOr<LayerTensor> tensor = ParseTensor(line);
    if (!tensor.ok()) return lines.AtLine(tensor.status());
    if (absl::Status status = CheckNext(*tensor, tensors, &names); !status.ok()) {
      return lines.AtLine(status);
    }
    million_macs += tensor->million_macs;
    tensors.push_back(*std::move(tensor));
  }
  if (million_macs > 0) return tensors;
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": expected at least one layer with multiply-accumulates"));
}

absl::StatusOr<std::vector<LayerTensor>> LoadLayerList(const std::string& name) {
  for (const BuiltIn& built_in : kBuiltIn) {
    if (built_in.name == name) return ParseLayerList(built_in.text, name);
  }
  const absl::StatusOr<std::string> text = ReadGzipFile(name, {kMaxListBytes});
  if (!text.ok()) {
    return absl::NotFoundError(
        absl::StrCat("model.replay.layers: expected vgg16, resnet50, bert_base, bert_large "
                     "or a file that can "
                     "be read, got ",
                     QuoteToken(name), ": ", text.status().message()));
  }
  return ParseLayerList(*text, name);
}

}  // namespace capstan
