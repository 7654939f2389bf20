#ifndef SERVER_SLICE_PARKED_PULLS_H_
#define SERVER_SLICE_PARKED_PULLS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// Due replies. They are run once no lock is held.
using ReleasedReplies =
    absl::InlinedVector<std::pair<ParameterEndpoint::ReplyCallback, ExchangeReply>, 1>;

// A pull held back by the consistency policy.
struct ParkedPull {
  Step step;
  bool is_float32 = false;             // as in StepPull
  uint64_t copy = 0;                   // as in DenseStep
  RowKeys keys;                        // of the rows
  uint64_t learning_rate_divisor = 0;  // of the push in the same exchange
  ParameterEndpoint::ReplyCallback done;
};

// The parked pulls of one slice. There is at most one of each worker, so memory is bounded. Not
// thread-safe: the slice's shard guards it.
class ParkedPulls {
 public:
  // `slice_name` appears in errors.
  explicit ParkedPulls(std::string slice_name) : slice_name_(std::move(slice_name)) {}

  // An older parked pull of the worker is answered UNAVAILABLE. Usually `pull` is its retry.
  void Park(WorkerId worker, ParkedPull pull, ReleasedReplies* released);

  int64_t size() const { return static_cast<int64_t>(pulls_.size()); }

  // Removes and returns all pulls, by worker.
  std::map<WorkerId, ParkedPull> TakeAll() { return std::exchange(pulls_, {}); }

  // Answers the worker's pull FAILED_PRECONDITION: another process has taken the worker's place.
  void Refuse(WorkerId worker, ReleasedReplies* released);

  // Answers all pulls with `status`.
  void Cancel(const absl::Status& status, ReleasedReplies* released);

 private:
  const std::string slice_name_;
  std::map<WorkerId, ParkedPull> pulls_;
};

}  // namespace capstan

#endif  // SERVER_SLICE_PARKED_PULLS_H_
