// The copies of shards, here and on other servers.

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/shard/shard_host.h"

namespace capstan {
namespace {

// Copies over one link.
constexpr int kMadeAtOnce = 2;

}  // namespace

std::unique_ptr<ShardBackup> ShardHost::NewBackup(ShardId id) {
  return std::make_unique<ShardBackup>(
      [this, id](SliceSnapshot& snapshot) -> absl::StatusOr<std::unique_ptr<Slice>> {
        RETURN_IF_ERROR(CheckSlice(snapshot.key));
        if (shard_map_.ShardOf(snapshot.key) != id) {
          return absl::InvalidArgumentError(
              absl::StrCat(SliceName(snapshot.key), " is not of shard ", id.value()));
        }
        RETURN_IF_ERROR(CheckFits(snapshot.key, snapshot));
        ASSIGN_OR_RETURN(std::unique_ptr<Slice> slice, MakeSliceOf(snapshot));
        RETURN_IF_ERROR(slice->Restore(snapshot));
        return slice;
      });
}

void ShardHost::BeginCopy(ShardId shard, const CopyTarget& target) {
  // Its server expects the new one.
  EndCopy(shard, target.number - 1);
  {
    MutexLock lock(&copies_mu_);
    waiting_copies_[shard] = target;
  }
  MakeCopies();
}

void ShardHost::EndCopy(ShardId shard, uint64_t number) {
  {
    MutexLock lock(&copies_mu_);
    const auto waiting = waiting_copies_.find(shard);
    if (waiting != waiting_copies_.end() && waiting->second.number <= number) {
      waiting_copies_.erase(waiting);
    }
  }
  shard_of_id_[shard.value()].load()->EndCopy(number);
}

void ShardHost::MakeCopies() {
  while (true) {
    std::pair<ShardId, CopyTarget> next;
    {
      MutexLock lock(&copies_mu_);
      auto found = waiting_copies_.begin();
      while (found != waiting_copies_.end() &&
             copies_being_made_[found->second.link] >= kMadeAtOnce) {
        ++found;
      }
      if (found == waiting_copies_.end()) return;
      next = *found;
      waiting_copies_.erase(found);
      ++copies_being_made_[next.second.link];
    }
    const auto& [shard, target] = next;
    Shard* const here = shard_of_id_[shard.value()];
    here->BeginCopy(shard, target, &record_memory_, [this, link = target.link] {
      {
        MutexLock lock(&copies_mu_);
        --copies_being_made_[link];
      }
      MakeCopies();
    });
  }
}

void ShardHost::ExpectCopy(ShardId shard, uint64_t number) {
  ShardBackup* expected;
  {
    MutexLock lock(&shards_mu_);
    std::unique_ptr<ShardBackup>& backup = backups_[shard];
    if (backup == nullptr) backup = NewBackup(shard);
    expected = backup.get();
  }
  expected->Expect(number);
}

void ShardHost::DropCopy(ShardId shard, uint64_t number) {
  if (ShardBackup* const backup = FindBackup(shard)) backup->Expect(number);
}

ShardBackup* ShardHost::FindBackup(ShardId id) const {
  MutexLock lock(&shards_mu_);
  const auto found = backups_.find(id);
  return found == backups_.end() ? nullptr : found->second.get();
}

const ShardBackup* ShardHost::backup(ShardId id) const { return FindBackup(id); }

void ShardHost::AfterCopies(std::function<void()> done) {
  std::vector<Shard*> shards;
  for (const auto& [id, shard] : ShardsHere()) shards.push_back(shard);
  if (shards.empty()) return done();
  const auto left = std::make_shared<std::atomic<size_t>>(shards.size());
  for (Shard* const shard : shards) {
    // One that has ended is never counted.
    shard->AfterCopy([left, done](const ExchangeReply& reply) {
      if (reply.status.ok() && --*left == 0) done();
    });
  }
}

void ShardHost::End(const absl::Status& status) {
  {
    MutexLock lock(&copies_mu_);
    waiting_copies_.clear();
  }
  for (const auto& [id, shard] : ShardsHere()) shard->End(status);
}

ExchangeReply ShardHost::TakeRecord(const ExchangeRequest& request) {
  const auto& record = std::get<ReplicaRecord>(request.purpose);
  const auto refuse = [this](const std::string& message) {
    return ErrorReply(absl::FailedPreconditionError(message), epoch_);
  };
  if (request.sender.job != options_.job) {
    return refuse(absl::StrCat("the change is of another job: expected fingerprint ", options_.job,
                               ", got ", request.sender.job));
  }
  if (record.backup != options_.incarnation) {
    return refuse(absl::StrCat("the change is for another process: expected incarnation ",
                               options_.incarnation.value(), ", got ", record.backup.value()));
  }
  ShardBackup* const backup = FindBackup(record.shard);
  if (backup == nullptr) {
    return refuse(absl::StrCat("this server has no copy of shard ", record.shard.value()));
  }
  return backup->Take(record);
}

std::vector<std::pair<ShardId, CopyProgress>> ShardHost::copies() const {
  std::vector<std::pair<ShardId, CopyProgress>> copies;
  std::map<ShardId, CopyTarget> waiting;
  {
    MutexLock lock(&copies_mu_);
    waiting = waiting_copies_;
  }
  for (const auto& [id, shard] : ShardsHere()) {
    std::optional<CopyProgress> progress = shard->copy_progress();
    if (const auto found = waiting.find(id); found != waiting.end()) {
      const CopyProgress earlier = progress.value_or(CopyProgress());
      const SliceMemory memory = shard->counts().memory;
      progress.emplace();
      progress->number = found->second.number;
      progress->bytes_to_copy = memory.parameters + memory.optimizer;
      progress->records = earlier.records;
      progress->record_bytes = earlier.record_bytes;
    }
    if (progress.has_value()) copies.emplace_back(id, *std::move(progress));
  }
  return copies;
}

}  // namespace capstan
