#include "common/history/contract_log.h"

namespace capstan {
namespace {

v1::ContractRecord::Mode ModeOf(const v1::ConsistencySpec& consistency) {
  switch (consistency.mode()) {
    case v1::ConsistencySpec::BSP:
      return v1::ContractRecord::BSP;
    case v1::ConsistencySpec::SSP:
      return v1::ContractRecord::SSP;
    case v1::ConsistencySpec::ASYNC:
      return v1::ContractRecord::ASYNC;
    case v1::ConsistencySpec::MODE_UNSPECIFIED:
      break;
  }
  return v1::ContractRecord::MODE_UNSPECIFIED;
}

v1::ContractRecord ContractOf(const v1::ConsistencySpec& consistency) {
  v1::ContractRecord contract;
  contract.set_mode(ModeOf(consistency));
  contract.set_staleness(consistency.staleness());
  return contract;
}

// Adds the period's promises to tables with a staleness of their own.
void AddTables(const v1::ConsistencyPeriod& period, const v1::JobView& view,
               std::vector<v1::ContractRecord>& records) {
  for (const v1::TableStaleness& own : period.consistency().table_staleness()) {
    for (int table = 0; table < view.tables_size(); ++table) {
      if (view.tables(table).name() != own.table()) continue;
      v1::ContractRecord record = ContractOf(period.consistency());
      record.set_from_step(period.first_step());
      record.set_has_table(true);
      record.set_table(static_cast<uint32_t>(table));
      record.set_staleness(own.staleness());
      records.push_back(record);
    }
  }
}

}  // namespace

v1::ContractRecord FirstContract(const v1::ConsistencySpec& consistency) {
  return ContractOf(consistency);
}

v1::HistoryHeader::UpdateScale UpdateScaleOfJob(const v1::JobSpec& job) {
  switch (job.consistency().update_scale()) {
    case v1::ConsistencySpec::STALENESS:
      return v1::HistoryHeader::STALENESS;
    case v1::ConsistencySpec::MEAN:
      return v1::HistoryHeader::MEAN;
    case v1::ConsistencySpec::SUM:
      return v1::HistoryHeader::SUM;
    case v1::ConsistencySpec::UPDATE_SCALE_UNSPECIFIED:
      break;
  }
  return v1::HistoryHeader::UPDATE_SCALE_UNSPECIFIED;
}

std::vector<v1::ContractRecord> ContractLog::Update(const v1::JobView& view) {
  std::vector<v1::ContractRecord> records;
  if (view.tables().empty()) return records;
  for (; periods_ < view.consistency_size(); ++periods_) {
    const v1::ConsistencyPeriod& period = view.consistency(periods_);
    if (periods_ > 0) {
      records.push_back(ContractOf(period.consistency()));
      records.back().set_from_step(period.first_step());
    }
    AddTables(period, view, records);
  }
  return records;
}

}  // namespace capstan
