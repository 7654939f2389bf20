#ifndef COMMON_HISTORY_HISTORY_H_
#define COMMON_HISTORY_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/tensor/slicing.h"
#include "proto/history.pb.h"

namespace capstan {

// Times are nanoseconds since the Unix epoch.
constexpr int64_t kNeverNs = std::numeric_limits<int64_t>::max();

// One exchange as its worker saw it.
struct RecordedExchange {
  WorkerId worker;
  Incarnation incarnation;
  SliceKey slice;
  std::optional<Step> push_step;
  std::optional<Step> pull_step;
  std::optional<uint64_t> base_version;  // of the values that the gradient was computed with
  int64_t begin_ns = 0;                  // when the worker asked
  int64_t end_ns = kNeverNs;             // never: it was not answered
  absl::StatusCode code = absl::StatusCode::kUnknown;
  uint64_t version = 0;
  Step min_step;
  uint64_t learning_rate_divisor = 0;  // of the push; 0: not told
  std::vector<float> values;

  bool is_answered() const { return end_ns != kNeverNs; }
  bool is_ok() const { return is_answered() && code == absl::StatusCode::kOk; }
  // The worker asked after `other`, of the same worker and slice, was answered. So this exchange
  // must not have seen anything older.
  bool Follows(const RecordedExchange& other) const { return other.end_ns <= begin_ns; }
};

// "push of step 3, pull of step 4 by worker 1 (incarnation 7), slice 0 of table 2, 0.5 to 0.7 s:
// version 9, min_step 3". Times count from `origin_ns`.
std::string Describe(const RecordedExchange& exchange, int64_t origin_ns);

// All that is known of one run.
struct History {
  v1::HistoryHeader header;
  std::vector<v1::ContractRecord> contracts;
  std::vector<v1::MembershipRecord> membership;  // in order of time
  std::vector<RecordedExchange> exchanges;       // in order of begin
  int64_t begin_ns = kNeverNs;                   // of the first exchange
  int64_t end_ns = 0;                            // time of the last record
};

// Puts the files of one history together. Not thread-safe.
class HistoryAssembler {
 public:
  // The records of one file. INVALID_ARGUMENT when they do not fit together, or not with the other
  // files.
  absl::Status AddFile(const std::vector<v1::HistoryRecord>& records);
  // What the files had in common. An incarnation of which no record says when it entered has been
  // there from the start; one whose file has no end is taken for dead from when it asked what it
  // was answered last: that it lived then is certain.
  absl::StatusOr<History> Finish();

 private:
  using ExchangeKey = std::pair<Incarnation, uint64_t>;

  absl::Status Add(const v1::HistoryRecord& record);
  absl::Status AddHeader(const v1::HistoryHeader& header);
  absl::Status AddBegan(const v1::ExchangeBegan& began);
  absl::Status AddEnded(const v1::ExchangeEnded& ended);
  void NoteTime(int64_t time_ns);

  History history_;
  bool has_header_ = false;
  std::map<ExchangeKey, size_t> exchanges_;  // index
  // Of the file that is being added.
  std::set<std::pair<WorkerId, Incarnation>> lives_in_file_;
  int64_t last_sign_of_life_ns_ = 0;
  bool has_file_ended_ = false;
};

}  // namespace capstan

#endif  // COMMON_HISTORY_HISTORY_H_
