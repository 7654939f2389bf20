#ifndef SERVER_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define SERVER_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/checkpoint.pb.h"

namespace capstan {

// The checkpoints of a job, for the process that begins and completes them, one at a time. Each has
// a folder of its own: "checkpoint-000001", ... A checkpoint is complete once its manifest is
// there. Other files and folders, and links, are left alone. Calls may take long. Not thread-safe.
class CheckpointStorage {
 public:
  virtual ~CheckpointStorage() = default;

  // The random number that CheckCheckpointFolder expects.
  virtual uint64_t token() const = 0;
  // The path of the checkpoint with this name.
  virtual std::string PathOf(const std::string& name) const = 0;
  // Makes the folder of a new checkpoint, and returns its name. Removes the incomplete ones: nobody
  // completes them any more, and their room on the disk is needed.
  virtual absl::StatusOr<std::string> Create() = 0;
  // Completes a checkpoint. All of its files are on the disk already. INVALID_ARGUMENT: its
  // manifest contradicts itself.
  virtual absl::Status Publish(const std::string& name, const v1::CheckpointManifest& manifest) = 0;
  // Removes an incomplete checkpoint that no server writes any more, if the system lets it.
  virtual void Discard(const std::string& name) = 0;
  // Removes all complete checkpoints but the newest `keep`, and incomplete ones before the newest.
  // `keep` is at least 1. Goes on after an error, and returns the first one.
  virtual absl::Status RemoveOld(uint32_t keep) = 0;
};

// Opens the folder `dir`, and makes it if need be. `token` is a random number. ABORTED: another
// process uses it, also after `patience`; with `takes_over` it is used nevertheless, as that one
// does not count any more.
absl::StatusOr<std::unique_ptr<CheckpointStorage>> OpenCheckpointFolder(
    const std::string& dir, uint64_t token, bool takes_over = false,
    absl::Duration patience = absl::Seconds(2));

// FAILED_PRECONDITION unless a process has opened `dir` with this token.
absl::Status CheckCheckpointFolder(const std::string& dir, uint64_t token);

// A checkpoint in a folder.
struct CheckpointName {
  std::string name;
  bool is_complete = false;
};

// All checkpoints in `dir`, the newest first. NOT_FOUND: there is no such folder.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(const std::string& dir);

// The path of the newest complete checkpoint in `dir`; empty: there is none.
absl::StatusOr<std::string> NewestCheckpoint(const std::string& dir);

// The paths of the complete checkpoints at `path`, the newest first: `path` alone if it is the
// folder of one, otherwise those in it. NOT_FOUND: there is none.
absl::StatusOr<std::vector<std::string>> CompleteCheckpoints(const std::string& path);

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_CHECKPOINT_FOLDER_H_
