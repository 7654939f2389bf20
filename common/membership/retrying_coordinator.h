#ifndef COMMON_MEMBERSHIP_RETRYING_COORDINATOR_H_
#define COMMON_MEMBERSHIP_RETRYING_COORDINATOR_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/delayed_calls.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Repeats a call while its endpoint replies UNAVAILABLE. `rpc_deadline` after the reply was due, it
// replies UNAVAILABLE itself, even while a try hangs. Afterwards it tries each call only once,
// until one succeeds. Waits by timers. The destructor replies CANCELLED to waiting calls.
// Thread-safe.
class RetryingCoordinator : public CoordinatorEndpoint {
 public:
  struct Options {
    // Required: the coordinator's host:port, for messages.
    std::string address;
    // The coordinator may be unreachable for this long.
    absl::Duration rpc_deadline = absl::Seconds(30);
    // The same until it has answered for the first time, if that is longer.
    absl::Duration first_deadline = absl::ZeroDuration();
  };

  // `clock` must outlive the endpoint. `jitter` makes each pause up to a half shorter.
  RetryingCoordinator(Options options, Clock& clock, Random jitter,
                      std::unique_ptr<CoordinatorEndpoint> inner);
  ~RetryingCoordinator() override;

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override;

 private:
  struct OpenCall {
    CoordinatorRequest request;
    Callback<CoordinatorReply> done;
    // The coordinator may park the call for this long.
    absl::Duration parked_at_most;
    bool has_failed = false;
    absl::Duration backoff;
    // The reply and the end of the call's time may come at the same moment.
    std::atomic<bool> is_answered = false;

    void Answer(absl::StatusOr<CoordinatorReply> reply) {
      if (!is_answered.exchange(true)) done(std::move(reply));
    }
  };

  absl::Duration ParkedAtMost(const CoordinatorRequest& request);
  void Send(std::shared_ptr<OpenCall> call);
  // Sends the call again after a pause. The failed try was sent at `sent_at`.
  void TryAgain(std::shared_ptr<OpenCall> call, absl::Time sent_at);
  // Gives the call up at the end of its time. The time begins at `due`, when the first reply was
  // due.
  void LimitTime(std::shared_ptr<OpenCall> call, absl::Time due);
  void NoteAnswer(const CoordinatorReply& reply);
  void NoteError(const absl::Status& error);
  // For this time the coordinator may be unreachable now.
  absl::Duration Deadline() const;
  // Up to a half shorter than `backoff`.
  absl::Duration PauseOf(absl::Duration backoff);

  const Options options_;
  Clock& clock_;
  std::atomic<bool> has_answered_ = false;
  std::atomic<bool> has_given_up_ = false;

  Mutex mu_;
  Random jitter_ ABSL_GUARDED_BY(mu_);
  absl::Duration heartbeat_interval_ ABSL_GUARDED_BY(mu_);  // from GetJob's reply
  std::string last_error_ ABSL_GUARDED_BY(mu_);             // of a try that failed

  DelayedCalls later_;  // Use `inner_` until they are stopped.
  std::unique_ptr<CoordinatorEndpoint> inner_;
};

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_RETRYING_COORDINATOR_H_
