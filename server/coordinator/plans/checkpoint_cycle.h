#ifndef SERVER_COORDINATOR_PLANS_CHECKPOINT_CYCLE_H_
#define SERVER_COORDINATOR_PLANS_CHECKPOINT_CYCLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator_service.pb.h"
#include "proto/coordinator_state.pb.h"
#include "proto/job.pb.h"
#include "server/checkpoint/checkpoint_folder.h"

namespace capstan {

// When the checkpoints of a job are written, and how far the current one is. One after the other:
// the coordinator makes the folder, the servers agree on a step, cut and write their shards, and
// the coordinator writes the manifest. Not thread-safe.
class CheckpointCycle {
 public:
  // Work on files, for the owner to do without a lock. Returns the name of a new checkpoint, or
  // what went wrong although the checkpoint is complete. Null: there is nothing to do.
  using Work = absl::AnyInvocable<absl::StatusOr<std::string>(CheckpointStorage& storage)>;

  // The training, as the cycle needs to know it.
  struct Training {
    absl::Time now;
    int64_t steps_done = 0;   // of the slowest live worker
    int64_t steps_total = 0;  // the last one of any worker; 0: not known yet
    bool is_bsp = false;      // at `steps_done`
    bool has_ended = false;  // no worker does a step, unless the job stays and another worker comes
  };

  // `restored_step` is that of the checkpoint from which the job goes on, or 0.
  CheckpointCycle(const v1::CheckpointSpec& spec, int64_t restored_step);

  // What another coordinator needs to know.
  void WriteTo(v1::CoordinatorState& state) const;
  // The checkpoint that was under way is given up, and those who have asked for it ask again. The
  // last one of a training is due again if it is not complete.
  void Restore(const v1::CoordinatorState& state);

  // Asks for a checkpoint of now or later, and returns its number. Requests share one as long as
  // its step is not chosen. FAILED_PRECONDITION: the job has no folder for checkpoints.
  absl::StatusOr<uint64_t> Request();
  // Begins a checkpoint if one is due and none is under way; else returns false.
  bool Begin(const Training& training);
  // Lets the servers agree on the step if the checkpoint has its folder; else returns false.
  bool BeginAgreeing();
  // A server's part. Ignored unless it belongs to the current checkpoint. INVALID_ARGUMENT: no job
  // gets to its steps.
  absl::Status Report(uint32_t server, const v1::CheckpointPart& part);
  // A server was lost: all live ones report anew. If its shards have moved while they are written,
  // the checkpoint is given up as by Discard, and the last one of a training is due again.
  void NoteLostServer(uint32_t server, bool moves_shards);
  // If the training has come to end before the checkpoint's step, the servers are to agree on
  // another one; else returns false.
  bool LeaveStepBeyondEnd(const Training& training);
  // Chooses the checkpoint's step once `num_servers`, all live ones, hold back; else returns false.
  bool ChooseStep(size_t num_servers, const Training& training);
  // The parts of all servers, once each has ended; else null.
  const std::map<uint32_t, v1::CheckpointPart>* EndedParts(size_t num_servers) const;
  // Every server has written its part: the manifest is next.
  void Publish(v1::CheckpointManifest manifest);
  // A server's part is of no use: the checkpoint is given up, and its folder goes. The job goes on.
  void Discard(const absl::Status& status);

  Work TakeWork() { return std::exchange(work_, nullptr); }
  void EndWork(const absl::StatusOr<std::string>& result, absl::Time now);

  bool is_publishing() const { return state_ == State::kPublishing; }
  bool is_agreeing() const { return state_ == State::kAgreeing; }
  // A checkpoint is under way, or the last one of an ended training is still due.
  bool IsBusy(const Training& training) const;
  // The answer to a request, also by a checkpoint of a later number; none while it is under way.
  std::optional<absl::StatusOr<v1::CheckpointReply>> Reply(uint64_t number) const;

  // Write the view's order, and the report for people.
  void WriteTo(v1::JobView& view) const;
  void WriteTo(v1::CheckpointStatus& status) const;

 private:
  enum class State {
    kIdle,
    kCreating,  // the coordinator makes the folder
    kCreated,
    kAgreeing,  // servers hold back
    kWriting,   // servers cut and write
    kPublishing,
    kDiscarding
  };

  void Fail(const absl::Status& status, absl::Time now);
  bool is_periodic() const { return spec_.steps() > 0 || spec_.seconds() > 0; }
  bool IsDue(const Training& training) const;
  bool IsLastDue(const Training& training) const;
  // The current checkpoint has begun, and its step is not chosen.
  bool HasNoStep() const;
  // The current checkpoint gets another step, and another number.
  void AgreeAgain();

  const v1::CheckpointSpec spec_;
  State state_ = State::kIdle;
  uint64_t number_ = 0;        // of the current checkpoint, or of the last one
  uint64_t requested_ = 0;     // the number of the next one, if it is requested
  bool is_requested_ = false;  // the current one
  bool is_ahead_ = false;      // its step is later than the servers need
  bool is_last_begun_ = false;
  std::string name_;                              // of the current one
  int64_t step_ = 0;                              // of the current one
  std::map<uint32_t, Step> held_from_;            // by server
  std::map<uint32_t, v1::CheckpointPart> parts_;  // by server, ended
  Work work_;
  int64_t newest_step_;
  v1::CheckpointStatus status_;
  std::map<uint64_t, absl::StatusOr<v1::CheckpointReply>> replies_;  // of requests
  absl::Time next_time_ = absl::InfinitePast();
  absl::Duration retry_;  // after the last failures; 0: there was none
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_CHECKPOINT_CYCLE_H_
