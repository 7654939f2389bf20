#include "common/history/contract_log.h"

#include "common/history/contract_of_job.h"

namespace capstan {
namespace {

// What the period promises to the tables with a staleness of their own.
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
