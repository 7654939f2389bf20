#include "worker/client_api/check_table.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/routing/table_check.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

// What the servers accept, because it is finite, and not 0 or 1, as float32.
struct Range {
  double least;
  double most;
  absl::string_view text;
};

constexpr double kMost = 1e9;
constexpr Range kPositive = {std::numeric_limits<float>::min(), kMost, "above 0 (1.2e-38 to 1e9)"};
constexpr Range kFromNano = {1e-9, kMost, "from 1e-9 to 1e9"};
constexpr Range kNotNegative = {0, kMost, "from 0 to 1e9"};
// The most is the largest double that is below 1 as float32.
constexpr Range kFraction = {0, 1 - 0x1p-25 - 0x1p-53, "at least 0 and, as float32, below 1"};
constexpr Range kFractionOfRows = {0, 1 - 1e-7, "from 0 to 1 - 1e-7"};

constexpr Spec::Type kDenseTypes[] = {Spec::SGD,     Spec::MOMENTUM, Spec::NESTEROV,
                                      Spec::ADAGRAD, Spec::ADAM,     Spec::ADAMW};
constexpr Spec::Type kSparseTypes[] = {Spec::SGD, Spec::ADAGRAD, Spec::ROW_ADAGRAD, Spec::ADAM,
                                       Spec::FTRL};

absl::Status CheckRange(absl::string_view field, double value, const Range& range) {
  if (value >= range.least && value <= range.most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("optimizer.", field, ": expected a number ",
                                                 range.text, ", got ", value, "; correct it"));
}

absl::Status CheckType(Spec::Type type, absl::Span<const Spec::Type> types,
                       absl::string_view kind) {
  if (std::find(types.begin(), types.end(), type) != types.end()) return absl::OkStatus();
  const std::string names = absl::StrJoin(types, ", ", [](std::string* text, Spec::Type one) {
    absl::StrAppend(text, Spec::Type_Name(one));
  });
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.type: expected one of ", names, " for a ", kind, " table, got ",
                   Spec::Type_Name(type), "; give the table one of these"));
}

absl::Status CheckMoments(const Spec& spec, const Range& range) {
  RETURN_IF_ERROR(CheckRange("beta1", spec.beta1(), range));
  RETURN_IF_ERROR(CheckRange("beta2", spec.beta2(), range));
  return CheckRange("epsilon", spec.epsilon(), kPositive);
}

absl::Status CheckDenseOptimizer(const Spec& spec) {
  RETURN_IF_ERROR(CheckType(spec.type(), kDenseTypes, "dense"));
  RETURN_IF_ERROR(CheckRange("learning_rate", spec.learning_rate(), kPositive));
  RETURN_IF_ERROR(CheckRange("weight_decay", spec.weight_decay(), kNotNegative));
  switch (spec.type()) {
    case Spec::MOMENTUM:
    case Spec::NESTEROV:
      return CheckRange("momentum", spec.momentum(), kFraction);
    case Spec::ADAGRAD:
      return CheckRange("epsilon", spec.epsilon(), kPositive);
    case Spec::ADAM:
    case Spec::ADAMW:
      return CheckMoments(spec, kFraction);
    case Spec::SGD:
    case Spec::ROW_ADAGRAD:
    case Spec::FTRL:
    case Spec::TYPE_UNSPECIFIED:
      break;
  }
  return absl::OkStatus();
}

absl::Status CheckFtrl(const Spec& spec, double initial_stddev) {
  RETURN_IF_ERROR(CheckRange("learning_rate", spec.learning_rate(), kFromNano));
  RETURN_IF_ERROR(CheckRange("beta", spec.beta(), kFromNano));
  RETURN_IF_ERROR(CheckRange("l1", spec.l1(), kNotNegative));
  RETURN_IF_ERROR(CheckRange("l2", spec.l2(), kNotNegative));
  if (initial_stddev == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("initial_stddev (in Python stddev): expected 0, with which FTRL begins, got ",
                   initial_stddev));
}

absl::Status CheckRowOptimizer(const Spec& spec, double initial_stddev) {
  RETURN_IF_ERROR(CheckType(spec.type(), kSparseTypes, "sparse"));
  RETURN_IF_ERROR(CheckRange("learning_rate", spec.learning_rate(), kPositive));
  if (spec.weight_decay() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.weight_decay: expected 0 for a sparse table, got ",
                     spec.weight_decay(), "; use FTRL with l2"));
  }
  switch (spec.type()) {
    case Spec::ADAGRAD:
    case Spec::ROW_ADAGRAD:
      return CheckRange("epsilon", spec.epsilon(), kPositive);
    case Spec::ADAM:
      return CheckMoments(spec, kFractionOfRows);
    case Spec::FTRL:
      return CheckFtrl(spec, initial_stddev);
    case Spec::SGD:
    case Spec::MOMENTUM:
    case Spec::NESTEROV:
    case Spec::ADAMW:
    case Spec::TYPE_UNSPECIFIED:
      break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTable(const v1::TableSpec& table, const v1::JobSpec& job) {
  TableSpecs tables;
  *tables.Add() = table;
  RETURN_IF_ERROR(CheckTables(tables, SliceBytes(job.scheduler())).status());
  const Spec& optimizer = table.has_optimizer() ? table.optimizer() : job.optimizer();
  return Annotate(table.has_sparse() ? CheckRowOptimizer(optimizer, table.initial_stddev())
                                     : CheckDenseOptimizer(optimizer),
                  absl::StrCat("table ", table.name()));
}

}  // namespace capstan
