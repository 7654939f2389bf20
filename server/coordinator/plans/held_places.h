#ifndef SERVER_COORDINATOR_PLANS_HELD_PLACES_H_
#define SERVER_COORDINATOR_PLANS_HELD_PLACES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/members/job_facts.h"
#include "server/coordinator/members/member_registry.h"
#include "server/coordinator/plans/job_plan.h"

namespace capstan {

// The places of lost workers that are held for other processes, under BSP. The servers wait for the
// place in the step that it has left open, and keep the values with which that step began: whoever
// takes the place does the step again, and nobody can tell the difference. Not thread-safe.
class HeldPlaces : public JobPlan {
 public:
  struct Loss {
    uint32_t worker = 0;
    std::string what;    // in a line
    std::string reason;  // in short
  };

  // `members` outlives the plan, which says there whose place is held.
  HeldPlaces(const v1::JobSpec& job, MemberRegistry& members) : job_(job), members_(members) {}

  // What a worker says of itself that becomes a member.
  void NoteWorker(const v1::RegisterWorkerRequest& request) {
    are_replaceable_ = are_replaceable_ && request.is_replaceable();
  }
  // Why no place is held in a job that trains under BSP. Empty: they are, or replace_seconds is 0,
  // or it does not.
  const std::string& refusal() const { return refusal_; }

  // Whether a step lacks the worker's updates, or may: it has not done all of them.
  bool HasOpenStep(uint32_t worker) const;
  // Whether the place of this worker would be held if it were lost now.
  bool WouldHold(uint32_t worker, const JobFacts& facts) const;
  // The worker has been lost, just now. False: its place is not held.
  bool Hold(const Loss& loss, const JobFacts& facts);
  // Another process has taken the place.
  void Release(uint32_t worker) { losses_.erase(worker); }
  // FAILED_PRECONDITION, for a change of the consistency: a place is held, and its open step is one
  // of BSP.
  absl::Status CheckNoneIsHeld() const;
  // When the next place is given up; InfiniteFuture: none is held.
  absl::Time deadline() const;
  // Gives up the places whose time is over, by `now`.
  std::vector<Loss> TakeExpired(absl::Time now);

  void OnPlacement(const JobFacts& facts) override;
  bool Settle(const JobFacts&, JobEvents&) override { return false; }
  void WriteToView(v1::JobView& view) const override;
  void WriteToState(v1::CoordinatorState& state) const override;
  // The places that are held are held for the whole time again.
  void Restore(const v1::CoordinatorState& state, const JobFacts& facts) override;

 private:
  void KeepPlace(const Loss& loss, absl::Time now);

  struct Held {
    Loss loss;
    absl::Time until;
  };

  const v1::JobSpec& job_;
  MemberRegistry& members_;
  bool are_replaceable_ = true;  // all workers so far
  bool holds_places_ = false;
  std::string refusal_;
  std::map<uint32_t, Held> losses_;  // by worker
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_HELD_PLACES_H_
