#ifndef COMMON_HISTORY_CHECK_CONTRACT_H_
#define COMMON_HISTORY_CHECK_CONTRACT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "proto/history.pb.h"

namespace capstan {

// The promises of a job to the pulls of each table and step. Immutable, hence thread-safe.
class Contract {
 public:
  struct Promise {
    v1::ContractRecord::Mode mode = v1::ContractRecord::MODE_UNSPECIFIED;
    int64_t staleness = 0;  // in steps; 0 unless SSP

    // A pull sees the updates of whole steps only.
    bool is_isolated() const { return mode == v1::ContractRecord::BSP; }
    // A pull may wait for others.
    bool is_bounded() const { return mode != v1::ContractRecord::ASYNC; }
  };

  // INVALID_ARGUMENT for a bad mode or staleness, or without a promise for step 0.
  static absl::Status Check(const std::vector<v1::ContractRecord>& records);

  // `records` have passed Check.
  explicit Contract(std::vector<v1::ContractRecord> records);

  Promise Of(TableId table, Step step) const;
  // The steps from which on a promise holds, of any table, in any order.
  std::vector<int64_t> FirstSteps() const;

 private:
  std::vector<v1::ContractRecord> records_;  // each once
};

}  // namespace capstan

#endif  // COMMON_HISTORY_CHECK_CONTRACT_H_
