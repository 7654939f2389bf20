#ifndef SERVER_CHECKPOINT_SHARD_STORAGE_H_
#define SERVER_CHECKPOINT_SHARD_STORAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator_service.pb.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// The shards in checkpoints, for a server. Thread-safe.
class ShardStorage {
 public:
  virtual ~ShardStorage() = default;

  // Writes a shard into the checkpoint called `name`, under a temporary name.
  virtual absl::StatusOr<v1::ShardFile> Write(const std::string& name,
                                              const ShardSnapshot& snapshot) = 0;
  // On return, these written files are on the disk under their own names.
  virtual absl::Status Finish(const std::string& name, const std::vector<v1::ShardFile>& files) = 0;

  // The manifest of the checkpoint at `path`, and one of its shards. DATA_LOSS: its file is
  // damaged.
  virtual absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& path) = 0;
  virtual absl::StatusOr<ShardSnapshot> Read(const std::string& path,
                                             const v1::ShardFile& file) = 0;
};

// Checkpoints in the folder `dir`, of a job with these tables. FAILED_PRECONDITION unless the
// coordinator has opened `dir` with this token; an empty `dir` is only for reading.
absl::StatusOr<std::unique_ptr<ShardStorage>> OpenShardFolder(const std::string& dir,
                                                              uint64_t token,
                                                              std::vector<std::string> table_names);

// DATA_LOSS, naming the file, unless the file of a shard in the checkpoint at `path` has the size
// and the checksum of the manifest.
absl::Status VerifyShardFile(const std::string& path, const v1::ShardFile& file);

// Verifies and reads a shard of the checkpoint at `path`, in one pass.
absl::StatusOr<ShardSnapshot> ReadVerifiedShard(const std::string& path, const v1::ShardFile& file,
                                                absl::Span<const std::string> table_names);

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_SHARD_STORAGE_H_
