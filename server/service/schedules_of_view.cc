#include "server/service/schedules_of_view.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "server/consistency/make_consistency_schedule.h"

namespace capstan {
namespace {

absl::StatusOr<ConsistencyMode> ToConsistencyMode(v1::ConsistencySpec::Mode mode) {
  switch (mode) {
    case v1::ConsistencySpec::BSP:
      return ConsistencyMode::kBsp;
    case v1::ConsistencySpec::SSP:
      return ConsistencyMode::kSsp;
    case v1::ConsistencySpec::ASYNC:
      return ConsistencyMode::kAsync;
    case v1::ConsistencySpec::MODE_UNSPECIFIED:
      break;
  }
  return absl::InvalidArgumentError("consistency.mode: expected BSP, SSP or ASYNC");
}

int64_t StalenessOf(const v1::ConsistencySpec& consistency, const std::string& table) {
  for (const v1::TableStaleness& own : consistency.table_staleness()) {
    if (own.table() == table) return own.staleness();
  }
  return consistency.staleness();
}

}  // namespace

absl::StatusOr<TableSchedules> SchedulesOfView(const v1::JobView& view) {
  TableSchedules schedules;
  for (const v1::TableSpec& table : view.tables()) {
    std::vector<ConsistencyPeriod> periods;
    for (const v1::ConsistencyPeriod& period : view.consistency()) {
      ASSIGN_OR_RETURN(const ConsistencyMode mode, ToConsistencyMode(period.consistency().mode()));
      periods.push_back(
          {Step(period.first_step()), mode, StalenessOf(period.consistency(), table.name())});
    }
    ASSIGN_OR_RETURN(auto schedule, MakeConsistencySchedule(periods));
    schedules.push_back(std::move(schedule));
  }
  return schedules;
}

}  // namespace capstan
