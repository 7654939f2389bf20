#ifndef COMMON_TRANSPORT_RETRYING_ENDPOINT_H_
#define COMMON_TRANSPORT_RETRYING_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/delayed_calls.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/transport/parameter_endpoint.h"

namespace capstan {

// Sends an exchange again while its endpoint answers UNAVAILABLE or RESOURCE_EXHAUSTED; the server
// applies it once. Gives up with UNAVAILABLE when the peer has been unreachable for `rpc_deadline`.
// Waiting is a timer. Thread-safe; when destroyed, what waits to be sent again is CANCELLED.
class RetryingEndpoint : public ParameterEndpoint {
 public:
  struct Options {
    Clock* clock = nullptr;  // Required; outlives the endpoint
    std::string peer;        // Required: names the peer in errors, as in "server 1 (host:port)"
    absl::Duration rpc_deadline = absl::Seconds(30);
    absl::Duration first_backoff = absl::Milliseconds(20);  // doubles with every failure
    absl::Duration last_backoff = absl::Seconds(1);
    uint64_t seed = 0;  // of the jitter, up to half of the backoff
  };

  RetryingEndpoint(Options options, std::unique_ptr<ParameterEndpoint> inner);
  ~RetryingEndpoint() override;

  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override;

 private:
  // One exchange on its way to an answer.
  struct Attempt {
    RetryingEndpoint* endpoint = nullptr;  // here, so that callbacks that have this need no memory
    ExchangeRequest request;
    SentCallback sent;
    ReplyCallback done;
    absl::Duration backoff;
    absl::Time started;                           // of the latest try
    std::optional<absl::Time> unreachable_since;  // first of the failures in a row
  };

  void Send(std::shared_ptr<Attempt> attempt);
  void OnReply(std::shared_ptr<Attempt> attempt, ExchangeReply reply);
  void SendLater(std::shared_ptr<Attempt> attempt);

  const Options options_;

  Mutex mu_;
  Random jitter_ ABSL_GUARDED_BY(mu_);

  DelayedCalls later_;  // use inner_ until they are stopped
  std::unique_ptr<ParameterEndpoint> inner_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_RETRYING_ENDPOINT_H_
