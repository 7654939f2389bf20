#ifndef TESTS_BENCHMARK_COORDINATOR_SEEN_VIEWS_H_
#define TESTS_BENCHMARK_COORDINATOR_SEEN_VIEWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// What the newest view of each simulated member says. One thread can wait until all members know
// something. Thread-safe.
class SeenViews {
 public:
  // Of one view.
  struct Seen {
    v1::Phase phase = v1::PHASE_UNSPECIFIED;
    uint32_t servers_lost = 0;
    bool copies_are_whole = false;  // of all shards
  };
  using Condition = std::function<bool(const Seen&)>;

  // `clock` outlives this object.
  SeenViews(size_t num_members, Clock* clock);

  void OnView(size_t member, const v1::JobView& view);
  // The member cannot go on, for an error. Whoever waits then gets it.
  void OnLost(size_t member, const absl::Status& status);
  // Nobody waits for the member any more.
  void Leave(size_t member);

  // Waits until each member has a view with this condition. Returns the time at which the last one
  // had it. DEADLINE_EXCEEDED after `patience`, with the number of those without.
  absl::StatusOr<absl::Time> AwaitAll(Condition condition, absl::Duration patience);

 private:
  struct Member {
    Seen seen;
    bool has_left = false;
    bool is_awaited = false;
  };

  void NoteLocked(Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock* const clock_;
  Mutex mu_;
  CondVar changed_;
  std::vector<Member> members_ ABSL_GUARDED_BY(mu_);
  absl::Status lost_ ABSL_GUARDED_BY(mu_);
  Condition condition_ ABSL_GUARDED_BY(mu_);
  size_t num_awaited_ ABSL_GUARDED_BY(mu_) = 0;  // members without the condition
  absl::Time known_at_ ABSL_GUARDED_BY(mu_);     // by the last member
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COORDINATOR_SEEN_VIEWS_H_
