#include "server/optimizer/table_optimizers.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/known_values.h"
#include "common/job/optimizer_check.h"
#include "common/optimizer/optimizer.h"

namespace capstan {
namespace {

absl::StatusOr<RowOptimizer::Type> RowTypeOf(v1::OptimizerSpec::Type type) {
  switch (type) {
    case v1::OptimizerSpec::SGD:
      return RowOptimizer::Type::kSgd;
    case v1::OptimizerSpec::ADAGRAD:
      return RowOptimizer::Type::kAdagrad;
    case v1::OptimizerSpec::ROW_ADAGRAD:
      return RowOptimizer::Type::kRowAdagrad;
    case v1::OptimizerSpec::ADAM:
      return RowOptimizer::Type::kAdam;
    case v1::OptimizerSpec::FTRL:
      return RowOptimizer::Type::kFtrl;
    case v1::OptimizerSpec::MOMENTUM:
    case v1::OptimizerSpec::NESTEROV:
    case v1::OptimizerSpec::ADAMW:
    case v1::OptimizerSpec::RMSPROP:
    case v1::OptimizerSpec::LION:
    case v1::OptimizerSpec::TYPE_UNSPECIFIED:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.type: expected SGD, ADAGRAD, ROW_ADAGRAD, ADAM or FTRL for a sparse "
                   "table, got ",
                   v1::OptimizerSpec::Type_Name(type), "; give the table one of these"));
}

}  // namespace

const v1::OptimizerSpec& OptimizerOf(const v1::JobSpec& job, const v1::TableSpec& table) {
  return table.has_optimizer() ? table.optimizer() : job.optimizer();
}

absl::StatusOr<std::unique_ptr<RowOptimizer>> MakeRowOptimizer(const v1::OptimizerSpec& spec,
                                                               size_t dim) {
  RETURN_IF_ERROR(CheckRowSettings(spec));
  RowOptimizer::Options options;
  ASSIGN_OR_RETURN(options.type, RowTypeOf(spec.type()));
  options.learning_rate = spec.learning_rate();
  options.epsilon = spec.epsilon();
  options.beta1 = spec.beta1();
  options.beta2 = spec.beta2();
  options.beta = spec.beta();
  options.l1 = spec.l1();
  options.l2 = spec.l2();
  return RowOptimizer::Create(options, dim);
}

absl::Status CheckTableOptimizers(const v1::JobSpec& job,
                                  const google::protobuf::RepeatedPtrField<v1::TableSpec>& tables) {
  for (const v1::TableSpec& table : tables) {
    RETURN_IF_ERROR(Annotate(CheckEnumsAreKnown(table), absl::StrCat("table ", table.name())));
    if (table.replies_mean()) continue;
    const v1::OptimizerSpec& optimizer = OptimizerOf(job, table);
    const absl::Status made = table.has_sparse()
                                  ? MakeRowOptimizer(optimizer, table.sparse().dim()).status()
                                  : MakeOptimizer(optimizer).status();
    RETURN_IF_ERROR(Annotate(made, absl::StrCat("table ", table.name())));
    if (table.has_sparse() || !table.has_optimizer()) continue;
    if (!job.codec().dgc() || table.optimizer().type() == v1::OptimizerSpec::SGD) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("table ", table.name(),
                     ": optimizer.type: expected SGD, because with dgc the workers "
                     "compute the momentum, got ",
                     v1::OptimizerSpec::Type_Name(table.optimizer().type()),
                     "; correct it, or start the job without --dgc"));
  }
  return absl::OkStatus();
}

absl::Status CheckJobOptimizerIsUsed(
    const v1::JobSpec& job, const google::protobuf::RepeatedPtrField<v1::TableSpec>& tables) {
  const bool all_have_own = std::all_of(
      tables.begin(), tables.end(),
      [](const v1::TableSpec& table) { return table.has_optimizer() || table.replies_mean(); });
  std::vector<const google::protobuf::FieldDescriptor*> given;
  job.optimizer().GetReflection()->ListFields(job.optimizer(), &given);
  if (!all_have_own || given.empty() || job.codec().dgc()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", given[0]->name(),
                   ": expected none, because the program gives every table an optimizer of its "
                   "own; set it in the program, and start the job without"));
}

}  // namespace capstan
