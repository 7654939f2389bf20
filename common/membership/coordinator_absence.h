#ifndef COMMON_MEMBERSHIP_COORDINATOR_ABSENCE_H_
#define COMMON_MEMBERSHIP_COORDINATOR_ABSENCE_H_

#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace capstan {

// Knows since when the coordinator of a process has not answered, as its connection reports. If the
// coordinator is waited for, the log says so after a second, and again when it is back.
// Thread-safe.
class CoordinatorAbsence {
 public:
  // `clock` outlives this object.
  explicit CoordinatorAbsence(const Clock* clock) : clock_(*clock) {}

  // From now on a coordinator that is away is waited for, for `patience`: it keeps its state.
  // `address` is for the log.
  void BeginToWait(std::string address, absl::Duration patience);
  // A call that was sent at `sent_at` was not answered, and its answer was due at `due`. Does
  // nothing if an answer came after it was sent.
  void NoteFailure(absl::Time sent_at, absl::Time due);
  void NoteAnswer();

  // How long it is waited for. Zero: it is not.
  absl::Duration patience() const;
  // Since when it has been away; zero while it answers.
  absl::Duration away() const;
  // The latest time at which a coordinator that is waited for was away: now, if it is. Never:
  // InfinitePast.
  absl::Time last_away() const;

 private:
  bool IsAwaitedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return patience_ > absl::ZeroDuration();
  }

  const Clock& clock_;

  mutable Mutex mu_;
  std::string address_ ABSL_GUARDED_BY(mu_);
  absl::Duration patience_ ABSL_GUARDED_BY(mu_);          // zero: it is not waited for
  std::optional<absl::Time> since_ ABSL_GUARDED_BY(mu_);  // none: it answers
  bool is_told_ ABSL_GUARDED_BY(mu_) = false;             // of this absence, in the log
  absl::Time last_answer_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  absl::Time last_away_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_COORDINATOR_ABSENCE_H_
