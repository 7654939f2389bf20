#include "tests/simulation/simulated_disk.h"

#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "server/checkpoint/shard_blocks.h"

namespace capstan {
namespace {

Payload CopyOf(const Payload& payload) {
  const auto copy = std::make_shared<std::vector<float>>(payload.size_bytes() / sizeof(float));
  payload.CopyTo(absl::MakeSpan(*copy));
  return Payload(*copy, copy);
}

// What a file holds of a snapshot: its blocks as bytes, and copies of its arrays.
absl::StatusOr<ShardSnapshot> Written(const ShardSnapshot& snapshot) {
  ASSIGN_OR_RETURN(ShardSnapshot written, DecodeShardBlocks(EncodeShardBlocks(snapshot)));
  for (size_t i = 0; i < written.slices.size(); ++i) {
    const SliceSnapshot& from = snapshot.slices[i];
    SliceSnapshot& to = written.slices[i];
    to.values = CopyOf(from.values);
    if (to.copy.has_value()) to.copy->values = CopyOf(from.copy->values);
    for (size_t k = 0; k < to.optimizer_state.size(); ++k) {
      to.optimizer_state[k] = CopyOf(from.optimizer_state[k]);
    }
    if (from.rows != nullptr) to.rows = std::make_shared<SparseRowsSnapshot>(*from.rows);
    for (size_t k = 0; k < to.kept.size(); ++k) {
      to.kept[k].gradient = CopyOf(from.kept[k].gradient);
      to.kept[k].keys = from.kept[k].keys;
    }
    for (size_t k = 0; k < to.own.size(); ++k) to.own[k].arrays = CopyOf(from.own[k].arrays);
  }
  return written;
}

}  // namespace

class SimulatedDisk::CoordinatorStorage : public CheckpointStorage {
 public:
  CoordinatorStorage(SimulatedDisk* disk, uint64_t life) : disk_(*disk), life_(life) {}

  uint64_t token() const override { return life_ + 1; }
  std::string PathOf(const std::string& name) const override { return name; }

  absl::StatusOr<std::string> Create() override {
    RETURN_IF_ERROR(disk_.CheckLife(life_));
    for (auto it = disk_.checkpoints_.begin(); it != disk_.checkpoints_.end();) {
      it = it->second.manifest.has_value() ? std::next(it) : disk_.checkpoints_.erase(it);
    }
    std::string name = absl::StrFormat("checkpoint-%06d", ++disk_.created_);
    disk_.checkpoints_[name];
    return name;
  }

  absl::Status Publish(const std::string& name, const v1::CheckpointManifest& manifest) override {
    RETURN_IF_ERROR(disk_.CheckLife(life_));
    // Another coordinator may have removed it.
    const auto found = disk_.checkpoints_.find(name);
    if (found == disk_.checkpoints_.end()) {
      return absl::NotFoundError(absl::StrCat(name, " is not on the disk"));
    }
    found->second.manifest = manifest;
    return absl::OkStatus();
  }

  void Discard(const std::string& name) override {
    if (disk_.CheckLife(life_).ok()) disk_.checkpoints_.erase(name);
  }

  absl::Status RemoveOld(uint32_t keep) override {
    RETURN_IF_ERROR(disk_.CheckLife(life_));
    uint32_t complete = 0;
    auto& all = disk_.checkpoints_;
    for (auto it = all.end(); it != all.begin();) {
      --it;
      const bool stays = it->second.manifest.has_value() ? ++complete <= keep : complete == 0;
      if (!stays) it = all.erase(it);
    }
    return absl::OkStatus();
  }

 private:
  SimulatedDisk& disk_;
  const uint64_t life_;
};

class SimulatedDisk::ServerStorage : public ShardStorage {
 public:
  ServerStorage(SimulatedDisk* disk, uint64_t life, SimulatedProcess* server)
      : disk_(*disk), life_(life), server_(*server) {}

  absl::StatusOr<v1::ShardFile> Write(const std::string& name,
                                      const ShardSnapshot& snapshot) override {
    RETURN_IF_ERROR(PassTime());
    ASSIGN_OR_RETURN(Checkpoint* const checkpoint, Find(name));
    ASSIGN_OR_RETURN(ShardSnapshot written, Written(snapshot));
    checkpoint->files[snapshot.shard.value()] = {std::move(written), /*is_finished=*/false};
    if (disk_.random_.Bernoulli(disk_.options_.failures)) {
      return absl::ResourceExhaustedError("the disk is full");
    }
    v1::ShardFile file;
    file.set_shard(snapshot.shard.value());
    return file;
  }

  absl::Status Finish(const std::string& name, const std::vector<v1::ShardFile>& files) override {
    for (const v1::ShardFile& file : files) {
      RETURN_IF_ERROR(PassTime());
      ASSIGN_OR_RETURN(Checkpoint* const checkpoint, Find(name));
      checkpoint->files.at(file.shard()).is_finished = true;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& path) override {
    return *disk_.Get(path).manifest;
  }

  absl::StatusOr<ShardSnapshot> Read(const std::string& path, const v1::ShardFile& file) override {
    const auto& files = disk_.Get(path).files;
    const auto found = files.find(file.shard());
    if (found != files.end() && found->second.is_finished) return found->second.snapshot;
    return absl::NotFoundError(
        absl::StrCat(path, ": expected a complete checkpoint, but shard ", file.shard(), " lacks"));
  }

 private:
  absl::StatusOr<Checkpoint*> Find(const std::string& name) {
    const auto found = disk_.checkpoints_.find(name);
    if (found != disk_.checkpoints_.end()) return &found->second;
    return absl::NotFoundError(absl::StrCat(name, " is not on the disk"));
  }
  absl::Status PassTime() {
    SleepUntil(server_,
               server_.Now() + disk_.random_.UniformFloat() * disk_.options_.max_write_time);
    return disk_.CheckLife(life_);
  }

  SimulatedDisk& disk_;
  const uint64_t life_;
  SimulatedProcess& server_;
};

std::unique_ptr<CheckpointStorage> SimulatedDisk::OpenForCoordinator() {
  return std::make_unique<CoordinatorStorage>(this, life_);
}

std::unique_ptr<ShardStorage> SimulatedDisk::OpenForServer(SimulatedProcess* server) {
  return std::make_unique<ServerStorage>(this, life_, server);
}

absl::Status SimulatedDisk::CheckLife(uint64_t life) const {
  if (life == life_) return absl::OkStatus();
  return absl::UnavailableError("this life of the job is over");
}

std::string SimulatedDisk::Newest() const {
  for (auto it = checkpoints_.rbegin(); it != checkpoints_.rend(); ++it) {
    if (it->second.manifest.has_value()) return it->first;
  }
  return "";
}

}  // namespace capstan
