#include "common/history/check/contract.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {

absl::Status Contract::Check(const std::vector<v1::ContractRecord>& records) {
  for (const v1::ContractRecord& record : records) {
    if (record.mode() != v1::ContractRecord::BSP && record.mode() != v1::ContractRecord::SSP &&
        record.mode() != v1::ContractRecord::ASYNC) {
      return absl::InvalidArgumentError(
          absl::StrCat("contract: expected BSP, SSP or ASYNC, got mode ", record.mode()));
    }
    if (record.staleness() < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "contract: expected a staleness of 0 or more steps, got ", record.staleness()));
    }
  }
  const bool has_start = std::any_of(records.begin(), records.end(), [](const auto& record) {
    return record.from_step() <= 0 && !record.has_table();
  });
  if (has_start) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "contract: expected a record for all tables from step 0 on, got none");
}

Contract::Contract(std::vector<v1::ContractRecord> records) {
  std::set<std::string> seen;
  // Every worker has recorded the same promises. The last of equal rank counts.
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (seen.insert(record->SerializeAsString()).second) records_.push_back(std::move(*record));
  }
  std::reverse(records_.begin(), records_.end());
}

std::vector<int64_t> Contract::FirstSteps() const {
  std::vector<int64_t> steps;
  for (const v1::ContractRecord& record : records_) steps.push_back(record.from_step());
  return steps;
}

Contract::Promise Contract::Of(TableId table, Step step) const {
  const v1::ContractRecord* best = nullptr;
  const auto rank = [](const v1::ContractRecord& record) {
    return std::make_pair(record.from_step(), record.has_table());
  };
  for (const v1::ContractRecord& record : records_) {
    if (record.from_step() > step.value()) continue;
    if (record.has_table() && TableId(record.table()) != table) continue;
    if (best == nullptr || rank(record) >= rank(*best)) best = &record;
  }
  Promise promise;
  promise.mode = best->mode();
  if (promise.mode == v1::ContractRecord::SSP) promise.staleness = best->staleness();
  return promise;
}

}  // namespace capstan
