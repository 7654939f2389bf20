#include "common/routing/table_check.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

using ::google::protobuf::util::MessageDifferencer;

// Bounds the memory of the maps of a job's slices.
constexpr uint64_t kMaxSlices = uint64_t{1} << 22;

std::string ShapeText(const v1::TableSpec& table) {
  return absl::StrCat("[", absl::StrJoin(table.shape(), ", "), "]");
}

absl::Status CheckSparseTable(const v1::TableSpec& table) {
  const v1::SparseTable& sparse = table.sparse();
  if (!table.shape().empty() || table.initial_from_worker()) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", table.name(),
                     " is sparse: expected no shape and no initial values from worker 0"));
  }
  if (sparse.dim() < 1 || sparse.dim() > kMostRowDim) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table ", table.name(), ": expected a dim of 1 to ", kMostRowDim, ", got ", sparse.dim()));
  }
  if (sparse.admitting_push() > 255) {
    return absl::InvalidArgumentError(absl::StrCat("table ", table.name(),
                                                   ": expected an admitting push of 1 to 255, got ",
                                                   sparse.admitting_push()));
  }
  if (sparse.max_idle_steps() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("table ", table.name(),
                                                   ": expected fewer than 2^32 idle steps, got ",
                                                   sparse.max_idle_steps()));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CountElements(const v1::TableSpec& table) {
  if (table.has_sparse()) {
    RETURN_IF_ERROR(CheckSparseTable(table));
    return 0;
  }
  if (table.shape().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", table.name(), " has no shape; give at least one size"));
  }
  uint64_t elements = 1;
  for (const uint64_t size : table.shape()) {
    if (size == 0) {
      return absl::InvalidArgumentError(absl::StrCat("table ", table.name(), " has shape ",
                                                     ShapeText(table), "; sizes must be positive"));
    }
    if (elements > std::numeric_limits<uint64_t>::max() / sizeof(float) / size) {
      return absl::InvalidArgumentError(absl::StrCat("table ", table.name(), " has shape ",
                                                     ShapeText(table),
                                                     ", which is more than 2^64 bytes"));
    }
    elements *= size;
  }
  return elements;
}

absl::Status CheckInitialStddev(const v1::TableSpec& table) {
  if (std::isfinite(table.initial_stddev()) && table.initial_stddev() >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("table ", table.name(), " has initial_stddev ",
                                                 table.initial_stddev(),
                                                 "; it must be finite and not negative"));
}

absl::Status CheckInitialValues(const v1::TableSpec& table) {
  RETURN_IF_ERROR(CheckInitialStddev(table));
  if (!table.initial_from_worker() || table.initial_stddev() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("table ", table.name(), " has initial values from worker 0 and initial_stddev ",
                   table.initial_stddev(), "; give one of the two"));
}

absl::Status CheckName(absl::string_view name) {
  if (PrintableText(name) != name) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", PrintableText(name),
                     " has characters in its name that cannot be printed; leave them out"));
  }
  if (name == "__metadata__") {
    return absl::InvalidArgumentError(
        "a table is called __metadata__, as the metadata in a model's file; choose another name");
  }
  return absl::OkStatus();
}

// `before`: the rows before it; null: there are none.
absl::Status CheckRowsOfTensor(const v1::TableSpec& table, const v1::TableSpec* before) {
  if (table.has_sparse() || table.shape().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("table ", table.name(), " is rows of tensor ",
                                                   table.tensor(), ": expected a dense table"));
  }
  if (before == nullptr) return absl::OkStatus();
  if (table.replies_mean() != before->replies_mean() ||
      table.has_optimizer() != before->has_optimizer() ||
      !MessageDifferencer::Equivalent(table.optimizer(), before->optimizer())) {
    return absl::InvalidArgumentError(absl::StrCat("tables ", before->name(), " and ", table.name(),
                                                   " are rows of tensor ", table.tensor(),
                                                   ": expected one optimizer of all its tables"));
  }
  if (std::equal(table.shape().begin() + 1, table.shape().end(), before->shape().begin() + 1,
                 before->shape().end())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tables ", before->name(), " and ", table.name(), " are rows of tensor ",
                   table.tensor(), ": expected shapes that differ in the first size only, got ",
                   ShapeText(*before), " and ", ShapeText(table)));
}

// A table's name and all that distinguishes it, for people.
std::string Describe(const v1::TableSpec& table) {
  std::string text =
      absl::StrCat("table ", table.name(), " of shape ", ShapeText(table), ", initial_stddev ",
                   table.initial_stddev(), ", layer ", table.layer());
  if (table.initial_from_worker()) absl::StrAppend(&text, ", initial values from worker 0");
  if (table.has_sparse()) {
    absl::StrAppend(&text, ", sparse {", table.sparse().ShortDebugString(), "}");
  }
  if (table.replies_mean()) absl::StrAppend(&text, ", whose optimizer the program runs");
  if (!table.tensor().empty()) absl::StrAppend(&text, ", rows of tensor ", table.tensor());
  if (table.has_optimizer()) {
    absl::StrAppend(&text, ", optimizer {", table.optimizer().ShortDebugString(), "}");
  }
  return text;
}

bool IsSame(const v1::TableSpec& a, const v1::TableSpec& b) {
  return a.name() == b.name() && a.initial_stddev() == b.initial_stddev() &&
         a.layer() == b.layer() && a.initial_from_worker() == b.initial_from_worker() &&
         a.has_optimizer() == b.has_optimizer() && a.replies_mean() == b.replies_mean() &&
         a.tensor() == b.tensor() && MessageDifferencer::Equivalent(a.optimizer(), b.optimizer()) &&
         a.has_sparse() == b.has_sparse() &&
         MessageDifferencer::Equivalent(a.sparse(), b.sparse()) &&
         std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(), b.shape().end());
}

// INVALID_ARGUMENT unless every one of `choices`, given with this flag, is for one of `tables`.
template <typename Choices>
absl::Status CheckTableNames(absl::string_view flag, const Choices& choices,
                             const TableSpecs& tables) {
  std::vector<std::string> names;
  for (const v1::TableSpec& table : tables) names.push_back(table.name());
  for (const auto& choice : choices) {
    if (std::find(names.begin(), names.end(), choice.table()) != names.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", flag, ": expected tables of the model (",
                                                   CutText(absl::StrJoin(names, ", ")), "), got \"",
                                                   choice.table(), "\""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> CheckTables(const TableSpecs& tables, uint64_t slice_bytes) {
  if (tables.empty()) {
    return absl::InvalidArgumentError("the worker has no tables; a model has at least one");
  }
  const uint64_t slice_elements = std::max<uint64_t>(1, slice_bytes / sizeof(float));
  absl::flat_hash_set<std::string> names;
  std::vector<uint64_t> table_elements;
  uint64_t slices = 0;
  const v1::TableSpec* before = nullptr;
  for (const v1::TableSpec& table : tables) {
    if (table.name().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("table ", table_elements.size(), " has no name; give it one"));
    }
    RETURN_IF_ERROR(CheckName(table.name()));
    if (!names.insert(table.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two tables are called ", table.name(), "; names must be distinct"));
    }
    if (!table.tensor().empty()) {
      const bool goes_on = before != nullptr && before->tensor() == table.tensor();
      RETURN_IF_ERROR(CheckName(table.tensor()));
      RETURN_IF_ERROR(CheckRowsOfTensor(table, goes_on ? before : nullptr));
      if (!goes_on && !names.insert(table.tensor()).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("table ", table.name(), " is rows of tensor ", table.tensor(),
                         ": expected all its tables one after the other, and no table that is "
                         "called so"));
      }
    }
    before = &table;
    RETURN_IF_ERROR(CheckInitialValues(table));
    ASSIGN_OR_RETURN(const uint64_t elements, CountElements(table));
    table_elements.push_back(elements);
    slices += (elements + slice_elements - 1) / slice_elements;
    if (slices > kMaxSlices) {
      return absl::InvalidArgumentError(absl::StrCat(
          "table ", table.name(), " of shape ", ShapeText(table), " brings the job to ", slices,
          " slices of ", slice_bytes, " bytes, at most ", kMaxSlices,
          " are possible; raise scheduler.slice_bytes"));
    }
  }
  return table_elements;
}

absl::Status CheckOwnArrays(uint32_t own_arrays, uint32_t push_arrays,
                            const std::vector<uint64_t>& table_elements, uint64_t slice_bytes) {
  if (own_arrays > kMostOwnArrays) {
    return absl::InvalidArgumentError(absl::StrCat("expected at most ", kMostOwnArrays,
                                                   " arrays of own state of each worker, got ",
                                                   own_arrays));
  }
  for (const uint64_t elements : table_elements) {
    const uint64_t arrays = own_arrays + push_arrays;
    const uint64_t bytes = arrays * std::min(slice_bytes, elements * sizeof(float));
    if (bytes <= kMaxSliceBytes) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "expected at most ", kMaxSliceBytes, " bytes of a worker's own state of one slice, got ",
        arrays, " arrays of ", bytes / arrays, " bytes; lower scheduler.slice_bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckSameTables(const TableSpecs& tables, const TableSpecs& expected,
                             absl::string_view whose, absl::string_view advice) {
  for (int i = 0; i < std::min(tables.size(), expected.size()); ++i) {
    if (IsSame(tables.Get(i), expected.Get(i))) continue;
    return absl::InvalidArgumentError(absl::StrCat("this worker has ", Describe(tables.Get(i)),
                                                   " where ", whose, " has ",
                                                   Describe(expected.Get(i)), "; ", advice));
  }
  if (tables.size() == expected.size()) return absl::OkStatus();
  const bool has_more = tables.size() > expected.size();
  const v1::TableSpec& odd = has_more ? tables.Get(expected.size()) : expected.Get(tables.size());
  return absl::InvalidArgumentError(absl::StrCat(
      "this worker has ", tables.size(), " tables, ", whose, " has ", expected.size(), ": only ",
      has_more ? "this worker" : whose, " has ", Describe(odd), "; ", advice));
}

absl::Status CheckTableStaleness(const v1::ConsistencySpec& consistency, const TableSpecs& tables) {
  return CheckTableNames("table_staleness", consistency.table_staleness(), tables);
}

absl::Status CheckMeanTables(const v1::JobSpec& job, const TableSpecs& tables,
                             uint64_t slice_bytes) {
  for (const v1::TableSpec& table : tables) {
    if (!table.replies_mean()) continue;
    const std::string what =
        absl::StrCat("table ", table.name(), ", whose optimizer the program runs: expected ");
    if (table.has_sparse() || table.has_optimizer()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, "a dense table without an optimizer of the servers"));
    }
    if (job.consistency().mode() != v1::ConsistencySpec::BSP) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, "--consistency=bsp, since all workers step with the same mean"));
    }
    if (job.stay()) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, "no --stay, since no later worker could begin with the optimizer's state"));
    }
    if (job.codec().dgc()) return absl::InvalidArgumentError(absl::StrCat(what, "no --dgc"));
    ASSIGN_OR_RETURN(const uint64_t elements, CountElements(table));
    const uint64_t slice = std::min(slice_bytes, elements * sizeof(float));
    if (constexpr uint64_t kMost = kMaxSliceBytes / (1 + kMaxTableStateArrays); slice > kMost) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, "--slice_bytes of at most ", kMost / 64 * 64, ", got slices of ", slice,
          " bytes: a message has those of the parameters and of the optimizer's state"));
    }
    std::string pull = job.codec().pull();
    for (const v1::TableCodec& own : job.codec().table_codec()) {
      if (own.table() == table.name()) pull = own.codec();
    }
    if (absl::StartsWith(pull, "topk") || pull == "auto") {
      return absl::InvalidArgumentError(
          absl::StrCat(what, "no topk of means, and no auto, got --pull_codec=", pull,
                       "; float32, bfloat16 and int8 are possible"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTableCodecs(const v1::CodecSpec& codec, const TableSpecs& tables) {
  return CheckTableNames("table_codec", codec.table_codec(), tables);
}

absl::Status CheckSparseTables(const v1::JobSpec& job, const TableSpecs& tables) {
  const bool has_files = !job.initial().empty() || !job.output().empty();
  for (const v1::TableSpec& table : tables) {
    if (!table.has_sparse() || !has_files) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "table ", table.name(),
        " is sparse, and the files of --initial and --output hold dense tables only; keep the "
        "job's checkpoints (--checkpoint_dir) instead: the same job goes on from one "
        "(--restore), and capstan export makes one a file for capstan evaluate and others"));
  }
  return absl::OkStatus();
}

std::string WarningOfLostRows(const v1::JobSpec& job, const TableSpecs& tables) {
  const auto sparse = std::find_if(tables.begin(), tables.end(),
                                   [](const v1::TableSpec& table) { return table.has_sparse(); });
  if (sparse == tables.end() || !job.checkpoint().dir().empty()) return "";
  return absl::StrCat(
      "warning: the rows of table ", ShortPrintableText(sparse->name()),
      " are lost when the job ends, as it has no --checkpoint_dir=DIR to keep them");
}

}  // namespace capstan
