#include "server/optimizer/table_optimizers.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/optimizer/optimizer.h"

namespace capstan {

const v1::OptimizerSpec& OptimizerOf(const v1::JobSpec& job, const v1::TableSpec& table) {
  return table.has_optimizer() ? table.optimizer() : job.optimizer();
}

absl::Status CheckTableOptimizers(const v1::JobSpec& job,
                                  const google::protobuf::RepeatedPtrField<v1::TableSpec>& tables) {
  for (const v1::TableSpec& table : tables) {
    if (!table.has_optimizer()) continue;
    const absl::Status made = MakeOptimizer(table.optimizer()).status();
    RETURN_IF_ERROR(Annotate(made, absl::StrCat("table ", table.name())));
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

}  // namespace capstan
