#ifndef SERVER_COORDINATOR_STATE_STATE_KEEPER_H_
#define SERVER_COORDINATOR_STATE_STATE_KEEPER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/delayed_calls.h"
#include "common/base/mutex.h"
#include "server/coordinator/state/state_store.h"

namespace capstan {

// Holds back what a coordinator says until the state on which it rests is kept. Saves one state
// after the other in the background, each time the newest. Without a store, nothing is held back.
// Thread-safe.
class StateKeeper {
 public:
  // Says something, or learns why it must not be said: UNAVAILABLE, another coordinator has taken
  // over; CANCELLED, this one is being destroyed.
  using Say = absl::AnyInvocable<void(absl::Status)>;
  struct Snapshot {
    uint64_t change = 0;  // all changes up to this one are in it
    SavedJob job;
  };
  struct Options {
    // Null: nothing is kept.
    std::unique_ptr<StateStore> store;
    // Required with a store: the newest state. It takes locks of the owner.
    std::function<Snapshot()> snapshot;
    // Required with a store: runs work that may take long on another thread, one at a time.
    std::function<void(absl::AnyInvocable<void()> work)> run_in_background;
    // Hears, at most once and on any thread, that this coordinator must end: another one has taken
    // over, or nothing could be written for so long that no member waits any more.
    absl::AnyInvocable<void(absl::Status)> on_lost;
    absl::Duration patience = absl::InfiniteDuration();
    // How often it looks whether another coordinator has taken over while it has nothing to save.
    absl::Duration look_interval = absl::InfiniteDuration();
  };

  // `clock` must outlive the keeper. No work may run in the background when it is destroyed.
  StateKeeper(Options options, Clock& clock);
  ~StateKeeper();

  // 0: there is no store.
  uint64_t term() const { return term_; }

  // Runs `say` once this change is kept: at once, or later on any thread. The caller holds no lock.
  void WhenKept(uint64_t change, Say say);
  // The same. But `say` runs only if no other coordinator has taken over since the call: a process
  // ends when it hears an error.
  void WhenConfirmed(uint64_t change, Say say);
  // Keeps the newest state as that of a job that is over. Blocks. Nothing was asked for since.
  absl::Status Finish();

  // For how long something has been held back; 0: nothing is.
  absl::Duration WaitingTime();

 private:
  void Hold(uint64_t change, bool is_to_be_confirmed, Say say);
  // In the background: saves until nothing is held any more.
  void Work();
  // Saves the newest state. If it is kept already, looks whether another coordinator has taken
  // over.
  absl::Status Keep();
  // The batch waits for another try. False: there is none any more.
  bool TryLater(std::deque<Say>& batch, const absl::Status& error);
  void LookLater();
  // In the background.
  void Look();
  void Lose(absl::Status error);
  void RunWork();

  const uint64_t term_;
  Options options_;  // `store` belongs to the work in the background
  Clock& clock_;

  Mutex mu_;
  uint64_t kept_ ABSL_GUARDED_BY(mu_) = 0;  // the last change that is kept
  std::deque<Say> held_ ABSL_GUARDED_BY(mu_);
  // The work runs, or waits for its next try. It began when nothing else was held back, or with the
  // last state that was kept.
  bool is_working_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time working_since_ ABSL_GUARDED_BY(mu_);
  bool is_failing_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration pause_ ABSL_GUARDED_BY(mu_);
  absl::Status lost_ ABSL_GUARDED_BY(mu_);  // not OK: nothing more is said

  DelayedCalls later_;  // Last, because it uses the members above.
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_STATE_STATE_KEEPER_H_
