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

// The thread for all calls of UCX. UCX and its connections therefore need no locks. A round is one
// iteration of the thread's loop: it runs tasks, lets UCX progress and flushes senders. The thread
// sleeps while nothing happens, unless it polls. Run, RunLater, RunAndWait and is_current are
// thread-safe. All else is for use on the thread.
class UcxThread {
 public:
  using Task = absl::AnyInvocable<void()>;

  // Sends messages at the end of a round.
  class Sender {
   public:
    virtual ~Sender() = default;
    // Gives waiting messages to UCX.
    virtual void Flush() = 0;
  };

  struct Options {
    Clock* clock = nullptr;  // Required; outlives the thread
    bool polls = false;      // never sleep: takes a core, and shortens round trips
    // Names of UCX's transports, as in "tcp,self". Empty: shared memory, the process itself, RDMA.
    std::string transports;
    // Runs once, on the thread, after 10 s of messages that UCX cannot take. It never recovers: UCX
    // 1.13's shared memory has one queue for all senders, and one of them was killed while it wrote
    // to the queue. A polling thread does not notice.
    std::function<void(const absl::Status&)> on_blocked = [](const absl::Status&) {};
  };

  // UNAVAILABLE: UCX does not start on this machine. RESOURCE_EXHAUSTED: no memory or no file
  // descriptor is left.
  static absl::StatusOr<std::unique_ptr<UcxThread>> Start(const Options& options);
  // Runs all tasks given before, and stops. Connections must have ended before.
  ~UcxThread();

  // Runs `task` on the thread: now if this is the thread, else later, in the order of the calls.
  void Run(Task task);
  // Runs `task` on the thread later, never within a callback of UCX.
  void RunLater(Task task);
  // Runs `task` on the thread and waits for its end. Must not be called on the thread.
  void RunAndWait(Task task);

  bool is_current() const { return thread_.get_id() == std::this_thread::get_id(); }
  ucp_worker_h worker() const { return worker_; }
  const std::string& transports() const { return options_.transports; }
  // UCX's address of this thread, for other processes. Thread-safe.
  const std::string& worker_address() const { return worker_address_; }
  // Open connections by endpoint.
  absl::flat_hash_map<ucp_ep_h, UcxConnection*>& connections() { return connections_; }
  // Inviters by the secret in the greeting that they wait for.
  absl::flat_hash_map<std::string, UcxInviter*>& invitations() { return invitations_; }
  // Number of the current round, from 1.
  uint64_t round() const { return round_; }
  // Flushes `sender` at the end of the round, unless FlushNoMore follows.
  void FlushSoon(Sender* sender) { to_flush_.push_back(sender); }
  void FlushNoMore(Sender* sender);
  // Flushes all senders of FlushSoon now.
  void Flush();
  // Keeps `memory` until the end of the thread, because UCX may still point to it.
  void Keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }

 private:
  explicit UcxThread(const Options& options);

  absl::Status Open();
  void Loop();
  // True if a task has run.
  bool RunTasks();
  // Lets UCX end its fetches. False: it takes too long.
  bool Settle();
  // True if the thread should sleep after `looks` vain looks in a row.
  bool HasLookedEnough(int looks);
  // Waits for an event of UCX or a task.
  void Sleep();
  // Messages wait in UCX, but it made no progress.
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

// The result of a call of UCX. The message names `call`.
absl::Status UcxStatus(ucs_status_t status, const char* call);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_THREAD_H_
