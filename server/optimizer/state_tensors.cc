#include "server/optimizer/state_tensors.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/job/optimizer_check.h"
#include "common/model_file/table_tensors.h"
#include "server/optimizer/table_optimizers.h"

namespace capstan {

using TableSpecs = google::protobuf::RepeatedPtrField<v1::TableSpec>;

StateTensors StateTensorsOf(const v1::JobSpec& job, const v1::TableSpec& table) {
  StateTensors tensors;
  if (table.has_sparse() || table.replies_mean()) return tensors;
  for (const std::string& array : OptimizerArrayNames(OptimizerOf(job, table))) {
    tensors.arrays.push_back(StateTensorName(table.name(), array));
  }
  if (!tensors.arrays.empty()) tensors.step = StateTensorName(table.name(), "step");
  return tensors;
}

absl::StatusOr<TableSpecs> StateTables(const v1::JobSpec& job, const TableSpecs& tables) {
  if (std::all_of(tables.begin(), tables.end(),
                  [](const v1::TableSpec& table) { return table.has_sparse(); })) {
    return absl::InvalidArgumentError(
        "expected a dense table, whose optimizer's state goes into a file, got none; the rows of "
        "sparse tables have their state with them");
  }
  TableSpecs state;
  for (const v1::TableSpec& table : tables) {
    if (absl::StartsWith(table.name(), kStatePrefix) ||
        absl::StartsWith(table.tensor(), kStatePrefix)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected tables whose names do not begin with ", kStatePrefix,
          ", as those of the optimizer's state do, got ", ShortPrintableText(table.name()),
          "; leave the state out, or give the table another name"));
    }
    const StateTensors tensors = StateTensorsOf(job, table);
    // The state of rows of a tensor is rows of its state.
    v1::TableSpec whole = table;
    if (!table.tensor().empty()) whole.set_name(table.tensor());
    const StateTensors of_whole = StateTensorsOf(job, whole);
    const auto add = [&](const std::string& name, const std::string& tensor) -> v1::TableSpec& {
      v1::TableSpec& added = *state.Add();
      added.set_name(name);
      if (!table.tensor().empty()) added.set_tensor(tensor);
      return added;
    };
    for (size_t i = 0; i < tensors.arrays.size(); ++i) {
      *add(tensors.arrays[i], of_whole.arrays[i]).mutable_shape() = table.shape();
    }
    if (!tensors.step.empty()) add(tensors.step, of_whole.step);
  }
  return state;
}

}  // namespace capstan
