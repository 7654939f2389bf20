#include "worker/program/check_table.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/job/optimizer_check.h"
#include "common/routing/table_check.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

constexpr Spec::Type kSparseTypes[] = {Spec::SGD, Spec::ADAGRAD, Spec::ROW_ADAGRAD, Spec::ADAM,
                                       Spec::FTRL};

absl::Status CheckType(Spec::Type type) {
  if (absl::c_linear_search(kSparseTypes, type)) return absl::OkStatus();
  const std::string names = absl::StrJoin(
      kSparseTypes, ", ",
      [](std::string* text, Spec::Type one) { absl::StrAppend(text, Spec::Type_Name(one)); });
  return absl::InvalidArgumentError(absl::StrCat("optimizer.type: expected one of ", names,
                                                 " for a sparse table, got ", Spec::Type_Name(type),
                                                 "; give the table one of these"));
}

absl::Status CheckMoments(const Spec& spec) {
  RETURN_IF_ERROR(CheckFraction("beta1", spec.beta1()));
  RETURN_IF_ERROR(CheckFraction("beta2", spec.beta2()));
  return CheckPositive("epsilon", spec.epsilon());
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
  RETURN_IF_ERROR(CheckType(spec.type()));
  RETURN_IF_ERROR(CheckPositive("learning_rate", spec.learning_rate()));
  RETURN_IF_ERROR(CheckRowSettings(spec));
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
    case Spec::RMSPROP:
    case Spec::LION:
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
  RETURN_IF_ERROR(CheckMeanTables(job, tables, SliceBytes(job.scheduler())));
  if (table.replies_mean()) return absl::OkStatus();
  const Spec& optimizer = table.has_optimizer() ? table.optimizer() : job.optimizer();
  return Annotate(table.has_sparse() ? CheckRowOptimizer(optimizer, table.initial_stddev())
                                     : CheckDenseOptimizer(optimizer),
                  absl::StrCat("table ", table.name()));
}

}  // namespace capstan
