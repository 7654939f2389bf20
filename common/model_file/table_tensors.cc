#include "common/model_file/table_tensors.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

using TableSpecs = google::protobuf::RepeatedPtrField<v1::TableSpec>;

std::string ShapeText(absl::Span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// In an error.
constexpr size_t kMostDifferences = 16;

// By name.
using Tensors = absl::flat_hash_map<std::string, const Safetensors::Tensor*>;

const Safetensors::Tensor* Find(const Tensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : found->second;
}

// The tensors of a table in a file that has `tensors`.
std::vector<Safetensors::Tensor> TensorsOf(const v1::TableSpec& table, const Tensors& tensors) {
  if (!table.has_sparse()) {
    return {{table.name(), "F32", {table.shape().begin(), table.shape().end()}}};
  }
  const std::string keys = absl::StrCat(table.name(), ".keys");
  const std::string state = absl::StrCat(table.name(), ".state");
  // As many rows as there are keys, and any state.
  const Safetensors::Tensor* const found = Find(tensors, keys);
  const uint64_t rows = found == nullptr || found->shape.empty() ? 0 : found->shape[0];
  std::vector<Safetensors::Tensor> all = {
      {keys, "I64", {rows}},
      {absl::StrCat(table.name(), ".values"), "F32", {rows, table.sparse().dim()}}};
  if (Find(tensors, state) != nullptr) all.push_back(*Find(tensors, state));
  return all;
}

// How the file's tensor differs; empty: it does not.
std::string DifferenceOf(const Safetensors::Tensor& expected, const Safetensors::Tensor* tensor) {
  const std::string name = ShortPrintableText(expected.name);
  if (tensor == nullptr) {
    return absl::StrCat(name, ": expected ", ShapeText(expected.shape), ", got none");
  }
  if (tensor->dtype == expected.dtype && tensor->shape == expected.shape) return "";
  return absl::StrCat(name, ": expected ", ShapeText(expected.shape), " of ", expected.dtype,
                      ", got ", ShapeText(tensor->shape), " of ", tensor->dtype);
}

// Whether the file's tensor is not of float32 as expected, and differs in nothing else.
bool IsNotFloat32(const Safetensors::Tensor& expected, const Safetensors::Tensor* tensor) {
  return tensor != nullptr && tensor->shape == expected.shape && expected.dtype == "F32" &&
         tensor->dtype != "F32";
}

Tensors ByName(const Safetensors& header) {
  Tensors tensors;
  for (const Safetensors::Tensor& tensor : header.tensors) tensors.emplace(tensor.name, &tensor);
  return tensors;
}

absl::flat_hash_set<std::string> DenseNames(const TableSpecs& tables) {
  absl::flat_hash_set<std::string> names;
  for (const v1::TableSpec& table : tables) {
    if (!table.has_sparse()) names.insert(table.name());
  }
  return names;
}

// Whether the tensor is one of the optimizer's, of a table in `dense`.
bool IsState(absl::string_view tensor, const absl::flat_hash_set<std::string>& dense) {
  if (!absl::ConsumePrefix(&tensor, kStatePrefix)) return false;
  const size_t dot = tensor.rfind('.');
  return dot != absl::string_view::npos && dense.contains(tensor.substr(0, dot));
}

}  // namespace

std::string StateTensorName(absl::string_view table, absl::string_view array) {
  return absl::StrCat(kStatePrefix, table, ".", array);
}

TableSpecs WholeTensors(const TableSpecs& tables) {
  TableSpecs whole;
  absl::flat_hash_map<std::string, v1::TableSpec*> tensors;
  for (const v1::TableSpec& table : tables) {
    v1::TableSpec* const tensor = table.tensor().empty() ? nullptr : tensors[table.tensor()];
    if (tensor == nullptr) {
      v1::TableSpec& added = *whole.Add();
      added = table;
      if (table.tensor().empty()) continue;
      added.set_name(table.tensor());
      tensors[table.tensor()] = &added;
    } else if (!table.shape().empty()) {  // A number is the same for all of them.
      tensor->set_shape(0, tensor->shape(0) + table.shape(0));
    }
  }
  return whole;
}

absl::Status CheckTableTensors(const Safetensors& header, const TableSpecs& parts) {
  const TableSpecs tables = WholeTensors(parts);
  const Tensors tensors = ByName(header);
  std::vector<std::string> differences;
  size_t num_not_float32 = 0;
  absl::flat_hash_set<std::string> expected;
  const absl::flat_hash_set<std::string> dense = DenseNames(tables);
  for (const v1::TableSpec& table : tables) {
    for (const Safetensors::Tensor& tensor : TensorsOf(table, tensors)) {
      expected.insert(tensor.name);
      const Safetensors::Tensor* const found = Find(tensors, tensor.name);
      num_not_float32 += IsNotFloat32(tensor, found) ? 1 : 0;
      std::string difference = DifferenceOf(tensor, found);
      if (!difference.empty()) differences.push_back(std::move(difference));
    }
  }
  const bool may_have_state =
      std::none_of(tables.begin(), tables.end(),
                   [&dense](const v1::TableSpec& table) { return IsState(table.name(), dense); });
  for (const Safetensors::Tensor& tensor : header.tensors) {
    if (expected.contains(tensor.name)) continue;
    if (may_have_state && IsState(tensor.name, dense)) continue;
    differences.push_back(absl::StrCat(ShortPrintableText(tensor.name), ": expected none, got ",
                                       ShapeText(tensor.shape)));
  }
  if (differences.empty()) return absl::OkStatus();
  const bool is_all_of_dtypes = differences.size() == num_not_float32;
  std::string more;
  if (differences.size() > kMostDifferences) {
    more = absl::StrCat("; and ", differences.size() - kMostDifferences, " more");
    differences.resize(kMostDifferences);
  }
  const std::string list = absl::StrCat(absl::StrJoin(differences, "; "), more);
  if (is_all_of_dtypes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected the job's tables as F32: ", list,
        ". Convert the file, as by safetensors.torch: save_file({name: values.float() for name, "
        "values in load_file(FILE).items()}, NEW_FILE)"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the file is of another model than the job's: ", list,
                   ". Use the job file and the flags with which it was trained"));
}

bool HasOptimizerState(const Safetensors& header, const TableSpecs& tables) {
  const absl::flat_hash_set<std::string> dense = DenseNames(WholeTensors(tables));
  return std::any_of(
      header.tensors.begin(), header.tensors.end(),
      [&dense](const Safetensors::Tensor& tensor) { return IsState(tensor.name, dense); });
}

}  // namespace capstan
