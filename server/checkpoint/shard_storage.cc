#include "server/checkpoint/shard_storage.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/model_file/durable_file.h"
#include "common/model_file/open_file.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_file.h"

namespace capstan {
namespace {

std::string FilePath(const std::string& checkpoint, uint32_t shard) {
  return absl::StrCat(checkpoint, "/", ShardFileName(shard));
}

std::string UnfinishedPath(const std::string& checkpoint, uint32_t shard) {
  return absl::StrCat(FilePath(checkpoint, shard), kUnfinishedSuffix);
}

// OK if the size and the hash of a file are the manifest's.
absl::Status CheckSums(const OpenFile& opened, const v1::ShardFile& file, uint64_t bytes,
                       std::optional<uint64_t> hash) {
  if (bytes == file.bytes() && hash == file.xxh3()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s: expected %d bytes with the XXH3-64 %016x, as the manifest says, got %d "
                      "bytes%s; the file "
                      "is damaged: use another checkpoint",
                      opened.path(), file.bytes(), file.xxh3(), bytes,
                      hash.has_value() ? absl::StrFormat(" with %016x", *hash) : ""));
}

absl::Status Verify(const OpenFile& opened, const v1::ShardFile& file) {
  ASSIGN_OR_RETURN(const uint64_t bytes, opened.SizeBytes());
  if (bytes != file.bytes()) return CheckSums(opened, file, bytes, /*hash=*/{});
  ASSIGN_OR_RETURN(const uint64_t hash, opened.HashAt(/*offset=*/0, bytes));
  return CheckSums(opened, file, bytes, hash);
}

class ShardFolder : public ShardStorage {
 public:
  ShardFolder(std::string dir, std::vector<std::string> table_names)
      : dir_(std::move(dir)), table_names_(std::move(table_names)) {}

  absl::StatusOr<v1::ShardFile> Write(const std::string& name,
                                      const ShardSnapshot& snapshot) override {
    MutexLock lock(&mu_);
    if (name != name_) open_.clear();
    name_ = name;
    absl::StatusOr<v1::ShardFile> written = WriteUnfinished(name, snapshot);
    // What is left of the checkpoint takes no room once its folder is removed.
    if (!written.ok()) open_.clear();
    return written;
  }

  absl::Status Finish(const std::string& name, const std::vector<v1::ShardFile>& files) override {
    {
      MutexLock lock(&mu_);
      const absl::Status synced = SyncAllBut(0);
      open_.clear();
      RETURN_IF_ERROR(synced);
    }
    const std::string path = PathOf(name);
    for (const v1::ShardFile& file : files) {
      const std::string unfinished = UnfinishedPath(path, file.shard());
      if (std::rename(unfinished.c_str(), FilePath(path, file.shard()).c_str()) != 0) {
        const absl::StatusCode code =
            errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable;
        return absl::Status(code,
                            absl::StrCat(unfinished, ": expected to give the file its name, got \"",
                                         std::strerror(errno), "\""));
      }
    }
    return SyncFolder(path);
  }

  absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& path) override {
    return capstan::ReadManifest(path);
  }

  absl::StatusOr<ShardSnapshot> Read(const std::string& path, const v1::ShardFile& file) override {
    return ReadVerifiedShard(path, file, table_names_);
  }

 private:
  std::string PathOf(const std::string& name) const { return absl::StrCat(dir_, "/", name); }

  absl::StatusOr<v1::ShardFile> WriteUnfinished(const std::string& name,
                                                const ShardSnapshot& snapshot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const std::string path = UnfinishedPath(PathOf(name), snapshot.shard.value());
    ASSIGN_OR_RETURN(OpenFile file,
                     OpenFile::Open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW));
    absl::StatusOr<v1::ShardFile> written = WriteInto(file, snapshot);
    if (!written.ok()) {
      unlink(path.c_str());  // The disk may be full.
      return written;
    }
    file.BeginSync();
    open_.push_back(std::move(file));
    RETURN_IF_ERROR(SyncAllBut(kMostOpen));
    return written;
  }

  absl::StatusOr<v1::ShardFile> WriteInto(const OpenFile& file, const ShardSnapshot& snapshot) {
    v1::ShardFile written;
    written.set_shard(snapshot.shard.value());
    ASSIGN_OR_RETURN(const uint64_t hash, WriteShardFile(snapshot, table_names_, file));
    written.set_xxh3(hash);
    ASSIGN_OR_RETURN(const uint64_t bytes, file.SizeBytes());
    written.set_bytes(bytes);
    return written;
  }

  // Syncs and closes all files but the last `count`.
  absl::Status SyncAllBut(size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (; open_.size() > count; open_.pop_front()) RETURN_IF_ERROR(open_.front().Sync());
    return absl::OkStatus();
  }

  // While the disk takes some files, the next one is written.
  static constexpr size_t kMostOpen = 64;

  const std::string dir_;
  const std::vector<std::string> table_names_;
  Mutex mu_;
  std::string name_ ABSL_GUARDED_BY(mu_);  // the checkpoint that is being written
  // They stay open until they are synced: the system tells an error that comes after a write only
  // to those who had the file open then.
  std::deque<OpenFile> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardStorage>> OpenShardFolder(
    const std::string& dir, uint64_t token, std::vector<std::string> table_names) {
  if (!dir.empty()) RETURN_IF_ERROR(CheckCheckpointFolder(dir, token));
  return std::make_unique<ShardFolder>(dir, std::move(table_names));
}

absl::Status VerifyShardFile(const std::string& path, const v1::ShardFile& file) {
  ASSIGN_OR_RETURN(const OpenFile opened, OpenFile::Open(FilePath(path, file.shard()), O_RDONLY));
  return Verify(opened, file);
}

absl::StatusOr<ShardSnapshot> ReadVerifiedShard(const std::string& path, const v1::ShardFile& file,
                                                absl::Span<const std::string> table_names) {
  ASSIGN_OR_RETURN(const OpenFile opened, OpenFile::Open(FilePath(path, file.shard()), O_RDONLY));
  ASSIGN_OR_RETURN(const uint64_t bytes, opened.SizeBytes());
  absl::StatusOr<HashedShard> read = absl::DataLossError("another size");
  if (bytes == file.bytes()) read = ReadShardFile(opened, table_names);
  // If the file is damaged, the error says this and nothing else.
  if (!read.ok()) RETURN_IF_ERROR(Verify(opened, file));
  RETURN_IF_ERROR(read.status());
  RETURN_IF_ERROR(CheckSums(opened, file, bytes, read->xxh3));
  if (read->snapshot.shard == ShardId(file.shard())) return std::move(read->snapshot);
  return absl::InvalidArgumentError(absl::StrCat(FilePath(path, file.shard()), ": expected shard ",
                                                 file.shard(), ", got shard ",
                                                 read->snapshot.shard.value()));
}

}  // namespace capstan
