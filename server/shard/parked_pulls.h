#ifndef SERVER_SHARD_PARKED_PULLS_H_
#define SERVER_SHARD_PARKED_PULLS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"

namespace capstan {

// Replies that are due, to be run once no lock is held.
using ReleasedReplies =
    absl::InlinedVector<std::pair<ParameterEndpoint::ReplyCallback, ExchangeReply>, 1>;

// A pull whose reply the consistency policy holds back.
struct ParkedPull {
  Step step;
  uint64_t learning_rate_divisor = 0;  // of the push that came with it
  ParameterEndpoint::ReplyCallback done;
};

// The parked pulls of one slice, at most one of each worker, so that memory is bounded. Not
// thread-safe: the slice's shard guards it.
class ParkedPulls {
 public:
  // `slice_name` names the slice in errors.
  explicit ParkedPulls(std::string slice_name) : slice_name_(std::move(slice_name)) {}

  // An older pull of the worker, such as one that it has sent again, is answered UNAVAILABLE.
  void Park(WorkerId worker, ParkedPull pull, ReleasedReplies* released);

  // All of them, by worker. None is parked any more.
  std::map<WorkerId, ParkedPull> TakeAll() { return std::exchange(pulls_, {}); }

  // Another process has taken the worker's place: its pull is answered FAILED_PRECONDITION.
  void Refuse(WorkerId worker, ReleasedReplies* released);

  // Answers all with `status`.
  void Cancel(const absl::Status& status, ReleasedReplies* released);

 private:
  const std::string slice_name_;
  std::map<WorkerId, ParkedPull> pulls_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_PARKED_PULLS_H_
