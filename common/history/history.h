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
#include "common/exchange/rates.h"
#include "common/job/test_values.h"
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
  std::optional<uint64_t> base_version;  // of the values behind the gradient
  Rates rates;                           // of the push alone
  bool is_empty_push = false;            // a push without a gradient
  bool is_initial = false;               // neither push nor pull: sends initial values
  int64_t begin_ns = 0;                  // when the worker asked
  int64_t end_ns = kNeverNs;             // never: it was not answered
  absl::StatusCode code = absl::StatusCode::kUnknown;
  uint64_t version = 0;
  Step min_step;
  uint64_t learning_rate_divisor = 0;  // of the push; 0: not recorded
  std::vector<float> values;
  // Instead of `values`: the elements in which they differ from those of the incarnation's latest
  // exchange with changes of the slice, at first from 0.
  std::optional<std::vector<std::pair<uint32_t, float>>> changes;
  size_t changes_number = 0;  // of an incarnation and slice, ascending as they follow one another
  bool has_inexact_values = false;  // not recorded, because they may lack a part of the updates

  bool is_answered() const { return end_ns != kNeverNs; }
  bool is_ok() const { return is_answered() && code == absl::StatusCode::kOk; }
  // True when the worker sent this request after the answer to `other`, of the same worker and
  // slice.
  bool Follows(const RecordedExchange& other) const { return other.end_ns <= begin_ns; }
  // True when another process in the worker's place does a step of `other` again.
  bool DoesAgain(const RecordedExchange& other) const {
    if (!pull_step.has_value()) return false;
    // Another process of worker 0 has sent the initial values once more.
    if (other.is_initial && *pull_step < other.min_step) return true;
    if (incarnation == other.incarnation) return false;
    return (other.push_step.has_value() && *pull_step <= *other.push_step) ||
           (other.pull_step.has_value() && *pull_step < *other.pull_step);
  }
};

// "push of step 3, pull of step 4 by worker 1 (incarnation 7), slice 0 of table 2, 0.5 to 0.7 s:
// version 9, min_step 3". Times count from `origin_ns`.
std::string Describe(const RecordedExchange& exchange, int64_t origin_ns);

// All records of one run.
struct History {
  v1::HistoryHeader header;
  std::vector<v1::ContractRecord> contracts;
  std::vector<v1::MembershipRecord> membership;  // in order of time
  std::vector<RecordedExchange> exchanges;       // in order of begin
  // Of a job that went on from a checkpoint with test values: its slices at the begin.
  std::map<SliceKey, v1::RestoredSlice> restored;
  int64_t begin_ns = kNeverNs;  // of the first exchange
  int64_t end_ns = 0;           // time of the last record
};

// Joins the files of one history. Not thread-safe.
class HistoryAssembler {
 public:
  // Adds the records of one file. INVALID_ARGUMENT when they contradict each other or another file.
  absl::Status AddFile(const std::vector<v1::HistoryRecord>& records);
  // The whole history. An incarnation without a record of its entry was there from the start. An
  // incarnation without an end in its file counts as dead from its last answered request on: it
  // certainly lived until then.
  absl::StatusOr<History> Finish();

 private:
  using ExchangeKey = std::pair<Incarnation, uint64_t>;

  absl::Status Add(const v1::HistoryRecord& record);
  absl::Status AddHeader(const v1::HistoryHeader& header);
  absl::Status AddBegan(const v1::ExchangeBegan& began);
  absl::Status AddEnded(const v1::ExchangeEnded& ended);
  absl::Status AddChanges(const v1::ExchangeEnded& ended, RecordedExchange& exchange);
  void NoteTime(int64_t time_ns);

  History history_;
  bool has_header_ = false;
  size_t num_changes_ = 0;
  std::map<ExchangeKey, size_t> exchanges_;  // index
  // State of the file in AddFile.
  std::set<std::pair<WorkerId, Incarnation>> lives_in_file_;
  int64_t last_sign_of_life_ns_ = 0;
  bool has_file_ended_ = false;
};

}  // namespace capstan

#endif  // COMMON_HISTORY_HISTORY_H_
