#ifndef SERVER_CHECKPOINT_CHECKPOINT_WRITER_H_
#define SERVER_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"
#include "server/checkpoint/shard_storage.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// A server's part in checkpoints: writes the snapshots of its shards on a thread of its own, and
// says how far it is. Before a shard it copies the shard's rows, and afterwards it releases the
// snapshot. Updates meanwhile need at most one more copy of values and optimizer state, for slices
// that are not written yet. Most of that memory stays for the next checkpoint. Thread-safe.
class CheckpointWriter {
 public:
  struct Options {
    Clock* clock = nullptr;           // Required; outlives the writer
    ShardStorage* storage = nullptr;  // Required; outlives the writer
    // Required: runs on the writer's thread when a part has ended.
    std::function<void()> on_end;
    // Runs a function on another thread. Null: on a std::thread.
    std::function<void(absl::AnyInvocable<void()> body)> spawn;
  };

  explicit CheckpointWriter(Options options);
  // Stops.
  ~CheckpointWriter();

  // Ends the writer's thread once the shard that is being written is written. Nothing happens
  // afterwards.
  void Stop();

  // Begins this server's part of checkpoint `number`, in the folder `name`: `shards` snapshots.
  // A part that has not ended is given up.
  void Begin(uint64_t number, const std::string& name, size_t shards);
  // Adds a snapshot. Ignored unless its part is the current one.
  void Add(uint64_t number, ShardSnapshot snapshot);

  // The current part, or the last one.
  v1::CheckpointPart part() const;

 private:
  // The part that is being written.
  struct Work {
    uint64_t number = 0;
    std::string name;
    size_t missing = 0;  // number of snapshots to come
    std::vector<ShardSnapshot> snapshots;
    std::map<WorkerId, v1::WorkerSteps> steps;
    Step end_step;
    std::vector<v1::ShardFile> files;
    absl::Status error;  // of a snapshot that is of no use
  };

  void Run();
  // Whether the current part has something to do.
  bool HasWorkLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Writes the next snapshot, or finishes the part.
  void DoWork();
  // Runs what no thread waits for, at the lowest priority.
  void RunLast(absl::FunctionRef<void()> work) const;
  void EndPart(uint64_t number, const absl::Status& status);

  const Options options_;

  mutable Mutex mu_;
  CondVar changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool is_running_ ABSL_GUARDED_BY(mu_) = true;
  Work work_ ABSL_GUARDED_BY(mu_);
  v1::CheckpointPart part_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;  // not with Options::spawn
};

// Notes a snapshot's workers: their first steps without an update, and the first step without any.
void NoteSteps(const ShardSnapshot& snapshot, std::map<WorkerId, v1::WorkerSteps>& steps,
               Step& end_step);

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_CHECKPOINT_WRITER_H_
