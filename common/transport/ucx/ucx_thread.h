#ifndef COMMON_TRANSPORT_UCX_UCX_THREAD_H_
#define COMMON_TRANSPORT_UCX_UCX_THREAD_H_

#include <ucp/api/ucp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/transport/ucx/stall_watch.h"

namespace capstan {

class UcxConnection;
class UcxInviter;

// One thread that makes UCX progress: everything of UCX happens on it, so that nothing of UCX and
// of the connections needs a lock. It sleeps while nothing happens, unless it is to poll. Run,
// RunAndWait and is_current are thread-safe; the rest is for tasks on the thread.
class UcxThread {
 public:
  using Task = absl::AnyInvocable<void()>;

  // Something whose messages wait for the end of a round.
  class Sender {
   public:
    virtual ~Sender() = default;
    // Hands over to UCX what waits.
    virtual void Flush() = 0;
  };

  struct Options {
    Clock* clock = nullptr;  // Required; outlives the thread
    bool polls = false;      // never sleep: a core for a shorter round trip
    // UCX's names, as in "tcp,self"; empty: shared memory, the process itself, and RDMA.
    std::string transports;
    // Runs once, on the thread, when messages have come for 10 s that UCX cannot take, which is for
    // good: UCX 1.13's shared memory has one queue for all senders, and one of them was killed
    // while it wrote into it. A thread that polls does not notice.
    std::function<void(const absl::Status&)> on_blocked = [](const absl::Status&) {};
  };

  // UNAVAILABLE when UCX does not start here.
  static absl::StatusOr<std::unique_ptr<UcxThread>> Start(const Options& options);
  // Runs what was asked for until now, and stops. No connection is left.
  ~UcxThread();

  // Runs `task` on the thread: at once when this is it, else soon, in the order of the calls.
  void Run(Task task);
  // Runs `task` on the thread, but never within a callback of UCX.
  void RunLater(Task task);
  // Returns when `task` has run. Not to be called on the thread.
  void RunAndWait(Task task);

  bool is_current() const { return thread_.get_id() == std::this_thread::get_id(); }
  ucp_worker_h worker() const { return worker_; }
  const std::string& transports() const { return options_.transports; }
  // Where other processes reach this thread, as UCX packs it. Thread-safe.
  const std::string& worker_address() const { return worker_address_; }
  // The open ones, by their endpoints.
  absl::flat_hash_map<ucp_ep_h, UcxConnection*>& connections() { return connections_; }
  // Who waits for a greeting, by the secret that it will have.
  absl::flat_hash_map<std::string, UcxInviter*>& invitations() { return invitations_; }
  // Which time it is, from 1 on, that the thread does what there is to do.
  uint64_t round() const { return round_; }
  // Flushes the sender at the end of the round, unless it is told not to.
  void FlushSoon(Sender* sender) { to_flush_.push_back(sender); }
  void FlushNoMore(Sender* sender);
  // All that are to be flushed, now.
  void Flush();
  // Keeps what UCX may still point to, until the end of the thread.
  void Keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }

 private:
  explicit UcxThread(const Options& options);

  absl::Status Open();
  void Loop();
  // True when a task has run.
  bool RunTasks();
  // Makes progress until nothing is fetched any more; false when that takes too long.
  bool Settle();
  // To go to sleep, after so many looks in vain.
  bool HasLookedEnough(int looks);
  // Returns when UCX has something to do, or a task has come.
  void Sleep();
  // UCX has something to do, but has not done anything when it was asked to.
  void OnBusy();

  Options options_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string worker_address_;
  absl::flat_hash_map<ucp_ep_h, UcxConnection*> connections_;
  absl::flat_hash_map<std::string, UcxInviter*> invitations_;
  uint64_t round_ = 1;
  std::vector<Sender*> to_flush_;
  std::vector<std::shared_ptr<void>> kept_;
  absl::Time looks_until_;
  StallWatch stall_;
  bool is_blocked_ = false;
  int ucx_events_ = -1;  // file descriptors; -1 when the thread polls
  int task_events_ = -1;

  Mutex mu_;
  CondVar task_has_run_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mu_);
  bool is_sleeping_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> has_tasks_ = false;
  std::atomic<bool> is_stopping_ = false;

  std::thread thread_;
};

// What a call of UCX answers, as a status that names the call.
absl::Status UcxStatus(ucs_status_t status, const char* call);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_THREAD_H_
