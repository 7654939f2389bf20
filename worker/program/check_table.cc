#include "worker/program/check_table.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/routing/table_check.h"
#include "kernels/optimizer_range.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

constexpr Spec::Type kDenseTypes[] = {Spec::SGD,     Spec::MOMENTUM, Spec::NESTEROV,
                                      Spec::ADAGRAD, Spec::ADAM,     Spec::ADAMW};
constexpr Spec::Type kSparseTypes[] = {Spec::SGD, Spec::ADAGRAD, Spec::ROW_ADAGRAD, Spec::ADAM,
                                       Spec::FTRL};

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

absl::Status CheckMoments(const Spec& spec) {
  RETURN_IF_ERROR(CheckFraction("beta1", spec.beta1()));
  RETURN_IF_ERROR(CheckFraction("beta2", spec.beta2()));
  return CheckPositive("epsilon", spec.epsilon());
}

absl::Status CheckDenseOptimizer(const Spec& spec) {
  RETURN_IF_ERROR(CheckType(spec.type(), kDenseTypes, "dense"));
  RETURN_IF_ERROR(CheckPositive("learning_rate", spec.learning_rate()));
  RETURN_IF_ERROR(CheckNotNegative("weight_decay", spec.weight_decay()));
  switch (spec.type()) {
    case Spec::MOMENTUM:
    case Spec::NESTEROV:
      return CheckFraction("momentum", spec.momentum());
    case Spec::ADAGRAD:
      return CheckPositive("epsilon", spec.epsilon());
    case Spec::ADAM:
    case Spec::ADAMW:
      return CheckMoments(spec);
    case Spec::SGD:
    case Spec::ROW_ADAGRAD:
    case Spec::FTRL:
    case Spec::TYPE_UNSPECIFIED:
      break;
  }
  return absl::OkStatus();
}

absl::Status CheckFtrl(const Spec& spec, double initial_stddev) {
  constexpr double kLeast = 1e-9;
  RETURN_IF_ERROR(CheckPositive("learning_rate", spec.learning_rate(), kLeast));
  RETURN_IF_ERROR(CheckPositive("beta", spec.beta(), kLeast));
  RETURN_IF_ERROR(CheckNotNegative("l1", spec.l1()));
  RETURN_IF_ERROR(CheckNotNegative("l2", spec.l2()));
  if (initial_stddev == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("initial_stddev (in Python stddev): expected 0, with which FTRL begins, got ",
                   initial_stddev));
}

absl::Status CheckRowOptimizer(const Spec& spec, double initial_stddev) {
  RETURN_IF_ERROR(CheckType(spec.type(), kSparseTypes, "sparse"));
  RETURN_IF_ERROR(CheckPositive("learning_rate", spec.learning_rate()));
  if (spec.weight_decay() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.weight_decay: expected 0 for a sparse table, got ",
                     spec.weight_decay(), "; use FTRL with l2"));
  }
  switch (spec.type()) {
    case Spec::ADAGRAD:
    case Spec::ROW_ADAGRAD:
      return CheckPositive("epsilon", spec.epsilon());
    case Spec::ADAM:
      return CheckMoments(spec);
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
