#ifndef COMMON_MEMBERSHIP_RETRYING_COORDINATOR_H_
#define COMMON_MEMBERSHIP_RETRYING_COORDINATOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
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
#include "common/membership/coordinator_absence.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Repeats a call while its endpoint replies UNAVAILABLE. `rpc_deadline` after the reply was due, it
// replies UNAVAILABLE itself, even while a try hangs. A coordinator that keeps its state has
// longer. Afterwards it tries each call only once, until one succeeds. Waits by timers. The
// destructor replies CANCELLED to waiting calls. Thread-safe.
class RetryingCoordinator : public CoordinatorEndpoint {
 public:
  struct Options {
    // Required: the coordinator's host:port, or several of them, for messages.
    std::string address;
    // The coordinator may be unreachable for this long.
    absl::Duration rpc_deadline = absl::Seconds(30);
    // The same until it has answered for the first time, if that is longer.
    absl::Duration first_deadline = absl::ZeroDuration();
    // Once GetJob's reply says that the coordinator keeps its state, it may be unreachable for the
    // job's membership.coordinator_seconds. False for commands, whose users wait.
    bool is_member = true;
    absl::Duration longest_pause = absl::Milliseconds(250);  // between two tries
    // Optional: hears of failures and answers. Outlives the endpoint.
    CoordinatorAbsence* absence = nullptr;
    // Optional: whether this process is to end. From then on, an unreachable coordinator has
    // kEndPatience only.
    std::function<bool()> is_ending;
  };

  static constexpr absl::Duration kEndPatience = absl::Seconds(3);

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
    // Of a call that has failed: when its first reply was due, and when it is given up.
    absl::Time due;
    absl::Time end;
    // Until then a reply to the open try is not late. Guarded by mu_.
    absl::Time reply_due;
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
  // Gives the call up at the end of its time, or after kEndPatience if this process is to end.
  void LimitTime(std::shared_ptr<OpenCall> call);
  void GiveUp(OpenCall& call);
  // When it is given up, as far as that is known now.
  absl::Time EndOf(const OpenCall& call);
  void NoteAnswer(const CoordinatorReply& reply);
  void NoteFailure(OpenCall& call, absl::Time sent_at, const absl::Status& error);
  // For this time the coordinator may be unreachable now.
  absl::Duration Deadline();
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
  // How long a coordinator that keeps its state may be away. None: it keeps none.
  std::optional<absl::Duration> patience_ ABSL_GUARDED_BY(mu_);
  // When `is_ending` was first seen to hold.
  absl::Time ending_since_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();

  DelayedCalls later_;  // Use `inner_` until they are stopped.
  std::unique_ptr<CoordinatorEndpoint> inner_;
};

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_RETRYING_COORDINATOR_H_
