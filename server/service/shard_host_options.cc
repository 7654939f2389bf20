#include "server/service/shard_host_options.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/codec/table_codecs.h"
#include "common/job/job_properties.h"
#include "common/optimizer/optimizer.h"
#include "common/routing/job_view.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/update_scale.h"
#include "server/optimizer/table_optimizers.h"

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

// The coordinator has checked the job.
UpdateScale UpdateScaleOf(const v1::ConsistencySpec& consistency) {
  switch (consistency.update_scale()) {
    case v1::ConsistencySpec::MEAN:
      return UpdateScale::kMean;
    case v1::ConsistencySpec::SUM:
      return UpdateScale::kSum;
    case v1::ConsistencySpec::STALENESS:
    case v1::ConsistencySpec::UPDATE_SCALE_UNSPECIFIED:
      break;
  }
  return UpdateScale::kStaleness;
}

absl::StatusOr<ShardHost::SparseTable> SparseTableOf(const v1::OptimizerSpec& optimizer,
                                                     const v1::SparseTable& spec) {
  ShardHost::SparseTable table;
  ASSIGN_OR_RETURN(table.optimizer, MakeRowOptimizer(optimizer, spec.dim()));
  table.admitting_push = static_cast<int>(std::max(spec.admitting_push(), 1u));
  if (spec.max_idle_steps() > 0) {
    table.max_idle_steps = static_cast<int64_t>(spec.max_idle_steps());
  }
  if (spec.max_rows() > 0) table.max_rows = spec.max_rows();
  return table;
}

}  // namespace

absl::StatusOr<ShardHost::Options> ShardHostOptions(const v1::GetJobReply& job, ServerId id,
                                                    const v1::JobView& view) {
  const v1::JobSpec& spec = job.job();
  const uint64_t slice_bytes = SliceBytes(SchedulerOf(spec, view));
  ShardHost::Options options;
  options.job = job.job_fingerprint();
  options.seed = spec.seed();
  for (const v1::TableSpec& table : view.tables()) {
    ASSIGN_OR_RETURN(TableCodecs codecs,
                     CodecsOfTable(spec.codec(), table.name(), ElementCount(table), slice_bytes));
    ShardHost::Table& made = options.tables.emplace_back();
    made = {table.name(), ElementCount(table), table.initial_stddev(), std::move(codecs)};
    made.initial_from_worker = table.initial_from_worker();
    if (table.has_sparse()) {
      ASSIGN_OR_RETURN(made.sparse, SparseTableOf(OptimizerOf(spec, table), table.sparse()));
    } else if (table.replies_mean()) {
      made.replies_mean = true;
    } else if (table.has_optimizer()) {
      ASSIGN_OR_RETURN(made.optimizer, MakeOptimizer(table.optimizer()));
    }
  }
  options.slice_bytes = slice_bytes;
  options.shard_count = spec.cluster().shard_count();
  options.update_scale = UpdateScaleOf(spec.consistency());
  options.check_finite = spec.consistency().check_finite();
  options.own_arrays = view.own_arrays();
  options.keeps_open_step = view.holds_places();
  // A round is long: a change does not wait for more of them than it must.
  if (view.has_local_steps()) options.steps_until_held_back = view.copies().empty() ? 0 : 1;
  options.has_programs = spec.model().type() == v1::ModelSpec::PROGRAM;
  options.reply_state_bytes = spec.codec().reply_state_bytes();
  // A worker's keys count like its bytes on the way.
  options.pulled_key_bytes = spec.transport().max_inflight_bytes() * spec.cluster().num_workers();
  // The coordinator has checked that no dense table needs one of the other optimizers.
  const v1::OptimizerSpec::Type type = spec.optimizer().type();
  if (type != v1::OptimizerSpec::ROW_ADAGRAD && type != v1::OptimizerSpec::FTRL) {
    ASSIGN_OR_RETURN(options.optimizer, MakeOptimizer(spec.optimizer()));
  }
  ASSIGN_OR_RETURN(options.schedules, SchedulesOfView(view));
  for (int shard = 0; shard < view.server_of_shard_size(); ++shard) {
    if (ServerId(view.server_of_shard(shard)) == id) options.shards.push_back(ShardId(shard));
  }
  for (int shard = 0; shard < view.copies_size(); ++shard) {
    if (ServerId(view.copies(shard).server()) == id) options.backups.push_back(ShardId(shard));
  }
  options.epoch = Epoch(view.epoch());
  return options;
}

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

std::vector<ShardHost::Worker> LiveWorkers(const v1::JobView& view) {
  std::vector<ShardHost::Worker> workers;
  for (const v1::WorkerInfo& worker : view.workers()) {
    if (!worker.is_live() && !worker.holds_place()) continue;
    workers.push_back({WorkerId(worker.worker()), Incarnation(worker.incarnation()),
                       Step(worker.first_step()), worker.is_entering(), !worker.is_live()});
  }
  return workers;
}

}  // namespace capstan
