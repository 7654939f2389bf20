#include "common/history/contract_of_job.h"

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

}  // namespace

v1::ContractRecord ContractOf(const v1::ConsistencySpec& consistency) {
  v1::ContractRecord contract;
  contract.set_mode(ModeOf(consistency));
  contract.set_staleness(consistency.staleness());
  return contract;
}

v1::ContractRecord ContractOfJob(const v1::JobSpec& job) { return ContractOf(job.consistency()); }

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

}  // namespace capstan
