#ifndef COMMON_TRANSPORT_EAGER_ENDPOINT_H_
#define COMMON_TRANSPORT_EAGER_ENDPOINT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/routing/slice_key.h"
#include "common/transport/parameter_endpoint.h"

namespace capstan {

// One worker's cache of a server's values (ESSP: Dai et al., "High-Performance Distributed ML at
// Scale through Parameter Server Consistency Models", AAAI'15). A push alone brings back the values
// that hold it, for the worker's next pull; the server sends newer ones as soon as min_step
// advances, until that pull. Such a pull, the first of its step, is answered from what has come, or
// waits here until something does. All else goes to the server. Thread-safe.
class EagerEndpoint : public ParameterEndpoint {
 public:
  // What the connections of one worker share.
  struct Shared {
    Clock* clock = nullptr;                     // Required; outlives the endpoints
    std::atomic<uint64_t> refreshed_bytes = 0;  // payloads that came without being pulled
  };

  // `shared` outlives the endpoint.
  EagerEndpoint(Shared* shared, std::unique_ptr<ParameterEndpoint> inner);
  ~EagerEndpoint() override;

  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override;

 private:
  // A pull that waits here for its values.
  struct Waiting {
    ExchangeRequest request;
    CacheWait waits_for;
    ReplyCallback done;
  };
  struct Slice {
    Step next = kNoValues;  // of the pull after the latest push; kNoValues: there is no such pull
    bool is_taken = false;  // that pull has been answered
    int open_pushes = 0;
    bool is_refresh_open = false;
    std::optional<ExchangeReply> kept;  // the newest values for that pull; none once it is taken
    std::optional<Waiting> waiting;     // that pull
  };
  // What is to be done once the lock is free.
  struct Actions {
    std::optional<ExchangeRequest> refresh;  // to be sent
    ReplyCallback done;                      // of a pull that is answered; null: none is
    ExchangeReply reply;
    void Answer();
  };

  void Push(ExchangeRequest request, SentCallback sent, ReplyCallback done);
  void Pull(ExchangeRequest request, SentCallback sent, ReplyCallback done);
  // Sends a refresh that AdvanceLocked wants.
  void Refresh(ExchangeRequest request);

  // A push of which `pull` is the next pull goes out. Returns a pull that waited for the push
  // before; it needs the server now.
  std::optional<Waiting> BeginPush(const ExchangeRequest& pull);
  Actions OnPushed(const ExchangeRequest& pull, const ExchangeReply& reply);
  Actions OnRefreshed(const ExchangeRequest& pull, const ExchangeReply& reply);
  // None: the server is to be asked. Else `done` has been taken.
  std::optional<Actions> AnswerOrWait(const ExchangeRequest& request, ReplyCallback& done);
  void KeepLocked(Slice& slice, const ExchangeReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // After `reply`: answers the pull that waits if that is due, and asks for newer values while they
  // can be of use; `pull` says whose.
  Actions AdvanceLocked(Slice& slice, const ExchangeRequest& pull, const ExchangeReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static bool WantsRefresh(const Slice& slice);

  Shared& shared_;

  Mutex mu_;
  CondVar refreshes_sent_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  int64_t active_refreshes_ ABSL_GUARDED_BY(mu_) = 0;  // that are being sent
  std::map<SliceKey, Slice> slices_ ABSL_GUARDED_BY(mu_);

  std::unique_ptr<ParameterEndpoint> inner_;  // Its end answers what is open; that comes back here.
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_EAGER_ENDPOINT_H_
