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
#include "common/tensor/slicing.h"
#include "proto/history.pb.h"

namespace capstan {

// Times are nanoseconds since the Unix epoch.
constexpr int64_t kNeverNs = std::numeric_limits<int64_t>::max();

// Test values show the updates in them. Each slice has one element for each (worker, step), 0 at
// first. The update of that worker and step moves this element by kTestUpdate. With SGD at learning
// rate 1, all values are exact in float32. A multiple of kTestUpdate is the number of times the
// update is in. A fraction gives the size of its mean, or the divisor of its learning rate.

// Divisible by 1 ... 16, the numbers of workers of a mean.
constexpr float kTestUpdate = 720720;
constexpr uint32_t kMaxTestWorkers = 16;

// The element of a slice for the update of `worker` at `step`.
constexpr size_t TestElement(WorkerId worker, Step step, int64_t steps) {
  return static_cast<size_t>(worker.value() * steps + step.value());
}

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
  void NoteTime(int64_t time_ns);

  History history_;
  bool has_header_ = false;
  std::map<ExchangeKey, size_t> exchanges_;  // index
  // State of the file in AddFile.
  std::set<std::pair<WorkerId, Incarnation>> lives_in_file_;
  int64_t last_sign_of_life_ns_ = 0;
  bool has_file_ended_ = false;
};

}  // namespace capstan

#endif  // COMMON_HISTORY_HISTORY_H_
