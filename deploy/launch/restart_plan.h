#ifndef DEPLOY_LAUNCH_RESTART_PLAN_H_
#define DEPLOY_LAUNCH_RESTART_PLAN_H_

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Decides what follows the failure of a job on this machine, or the loss of a member here. Counts
// the restarts and the replaced members. Not thread-safe.
class RestartPlan {
 public:
  static constexpr int kNoLimit = std::numeric_limits<int>::max();
  // A job with this number of failures in a row, and no newer checkpoint between them, is given up.
  static constexpr int kMostFailuresInARow = 10;
  // After this number of replaced workers in a row, and neither a newer checkpoint nor a further
  // step of all workers between them, a lost worker is a failure of the job. After this number of
  // replaced servers in a row, and no further step of all workers with two copies of each shard
  // between them, the job goes on without the lost one. After this number of replaced coordinators
  // in a row, and no further step of all workers between them, a lost coordinator is a failure.
  static constexpr int kMostReplacementsInARow = 10;

  struct Options {
    // Folder of the job's checkpoints. Empty: there are none, and only workers are replaced.
    std::string checkpoint_dir;
    // Largest number of restarts and replaced members, together.
    int most = kNoLimit;
    // As in v1::MembershipSpec.
    bool allows_other_bits = false;
    // The job is on several machines: each replaces its own members, and nobody starts all again.
    bool only_replaces = false;
    // Only lost coordinators are replaced, and servers while others have copies of their shards.
    bool only_servers = false;
  };

  struct Restart {
    // Folder of the checkpoint to go on from. Empty: the job starts as it first did.
    std::string checkpoint;
    // "restart 2 from step 150 (checkpoint-000003)"
    std::string text;
  };

  // Whether the place of a worker that is lost now is held for another one.
  static bool AreHeld(const v1::JobView& view) {
    return view.holds_places() && view.phase() == v1::TRAINING;
  }

  enum class LossAnswer { kRestart, kReplace, kGoOn };

  // Complete checkpoints in the folder now are of an earlier run: the job does not go on from them.
  // UNAVAILABLE when the folder cannot be read. It may be missing.
  static absl::StatusOr<RestartPlan> Create(Options options);

  // Whether there is a restart after some failures.
  bool starts_again() const { return !options_.only_replaces && !options_.only_servers; }
  bool replaces_workers() const { return !options_.only_servers; }
  // The next restart. All processes of the job have ended. Otherwise `failure`, with the reason for
  // no restart. `has_trained`: some life of the job has begun to train.
  absl::StatusOr<Restart> AfterFailure(const absl::Status& failure, bool has_trained);

  // What follows the loss of a worker while others live, or places are held. kRestart: the job is
  // to end, whether it starts again or not. kReplace counts as a replacement.
  LossAnswer AfterLostWorker(const v1::GetStatusReply& status);

  // What follows the loss of a server while others have copies of its shards. Empty: another one is
  // started, which counts as a replacement. Else why not. `had_come`: it had registered.
  std::string AfterLostServer(const v1::GetStatusReply& status, bool had_come);

  // What follows the loss of a coordinator that has kept the job. `status`: its last answer.
  // Empty: another one goes on with the job, which counts as a replacement. Else why not.
  std::string AfterLostCoordinator(const v1::GetStatusReply& status);

  // "restarted 3 times, 1 coordinator replaced, 1 worker replaced, 2 servers replaced". Empty: none
  // has happened.
  std::string CountsText() const;

 private:
  explicit RestartPlan(Options options) : options_(std::move(options)) {}
  // Paths of this run's complete checkpoints, the newest first.
  absl::StatusOr<std::vector<std::string>> Checkpoints() const;
  // A newer checkpoint begins a new row of failures and replacements.
  void NoteNewest(const std::vector<std::string>& checkpoints);
  // Why the job does not start again; empty: it does.
  std::string ReasonToEnd(bool has_trained) const;
  bool MayReplace() const {
    return restarts_ + replaced_ + replaced_servers_ + replaced_coordinators_ < options_.most;
  }
  // "--restart=on_failure:3 allows no more".
  std::string LimitText() const;

  Options options_;
  std::set<std::string> earlier_;  // names of an earlier run's checkpoints
  std::string newest_;             // path of the newest checkpoint so far
  int64_t steps_done_ = 0;         // by all workers, at the latest replacement of a worker
  int64_t server_steps_done_ = 0;  // the same of a server
  int64_t coordinator_steps_done_ = 0;
  int restarts_ = 0;
  int replaced_ = 0;  // workers
  int replaced_servers_ = 0;
  int replaced_coordinators_ = 0;
  int failures_in_a_row_ = 0;
  int replaced_in_a_row_ = 0;
  int servers_in_a_row_ = 0;
  int coordinators_in_a_row_ = 0;
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_RESTART_PLAN_H_
