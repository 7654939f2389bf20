#ifndef SERVER_SLICE_PUSH_RECEIPTS_H_
#define SERVER_SLICE_PUSH_RECEIPTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "server/slice/parked_pulls.h"

namespace capstan {

// Answers to kept pushes without a pull, of one slice. They are due once the push is applied: until
// then its worker is to have it, to send it again. Not thread-safe: the slice's shard guards it.
class PushReceipts {
 public:
  // `slice_name` appears in errors.
  explicit PushReceipts(std::string slice_name) : slice_name_(std::move(slice_name)) {}

  // The worker's push of `step` is kept. An older exchange with it is answered UNAVAILABLE.
  void Park(Step step, WorkerId worker, ParameterEndpoint::ReplyCallback done,
            ReleasedReplies* released);
  // It was applied. Does nothing if nobody waits for it.
  void Answer(Step step, WorkerId worker, ExchangeReply reply, ReleasedReplies* released);
  // The process is no member any more: answers FAILED_PRECONDITION.
  void Refuse(WorkerId worker, ReleasedReplies* released);
  // Answers all with `status`.
  void Cancel(const absl::Status& status, ReleasedReplies* released);

  int64_t size() const { return static_cast<int64_t>(open_.size()); }

 private:
  const std::string slice_name_;
  std::map<std::pair<Step, WorkerId>, ParameterEndpoint::ReplyCallback> open_;
};

}  // namespace capstan

#endif  // SERVER_SLICE_PUSH_RECEIPTS_H_
