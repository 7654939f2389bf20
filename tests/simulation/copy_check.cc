#include "tests/simulation/copy_check.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/shard/compare_copies.h"

namespace capstan {

const ShardBackup* CopyCheck::CopyOf(ShardId id, uint64_t number) const {
  const ShardBackup* found = nullptr;
  uint64_t most = 0;
  for (const ShardHost* const host : hosts_()) {
    const ShardBackup* const copy = host == nullptr ? nullptr : host->backup(id);
    if (copy == nullptr || copy->number() != number) continue;
    // Servers whose copy was another one know the number, too.
    copy->LookAt([&](uint64_t done, bool, const ShardContents&) {
      if (found != nullptr && done <= most) return;
      found = copy;
      most = done;
    });
  }
  return found;
}

void CopyCheck::Compare() {
  for (const ShardHost* const host : hosts_()) {
    for (const ShardId id : host == nullptr ? std::vector<ShardId>() : host->shards()) {
      const std::optional<CopyProgress> progress = host->shard(id)->copy_progress();
      const ShardBackup* const copy = progress.has_value() ? CopyOf(id, progress->number) : nullptr;
      if (copy == nullptr) continue;
      host->shard(id)->LookAt([&](uint64_t latest, const ShardContents& contents) {
        copy->LookAt([&](uint64_t done, bool is_whole, const ShardContents& copied) {
          if (!is_whole || done != latest) return;
          ++compared_;
          const std::string difference = DifferenceOf(contents, copied);
          if (difference.empty()) return;
          NoteFault(absl::StrCat("copies agree: shard ", id.value(), " after change ", latest, ": ",
                                 difference));
        });
      });
    }
    if (host == nullptr) continue;
    for (const auto& [id, progress] : host->copies()) {
      if (progress.is_whole && progress.number > 1) made_again_.emplace(id, progress.number);
      if (progress.fault.empty() || progress.fault == kWanted) continue;
      NoteFault(absl::StrCat("copies agree: shard ", id.value(), ": ", progress.fault));
    }
  }
}

void CopyCheck::CheckNextSteps(size_t server, const v1::HeartbeatRequest& heartbeat,
                               absl::FunctionRef<bool(uint32_t worker)> is_held) {
  const ShardHost* const host = hosts_()[server];
  if (host == nullptr || heartbeat.next_steps().empty()) return;
  for (const ShardId id : host->shards()) {
    const std::optional<CopyProgress> progress = host->shard(id)->copy_progress();
    const bool is_copied = progress.has_value() && progress->is_whole;
    const ShardBackup* const copy = is_copied ? CopyOf(id, progress->number) : nullptr;
    if (copy == nullptr) continue;
    copy->LookAt([&](uint64_t, bool, const ShardContents& copied) {
      for (const v1::NextStep& told : heartbeat.next_steps()) {
        const bool is_known = copied.workers.count(WorkerId(told.worker())) > 0;
        if (!is_known || !is_held(told.worker())) continue;
        for (const auto& [key, slice] : copied.slices) {
          const Step next = slice->next_step(WorkerId(told.worker()));
          if (next >= Step(told.step())) continue;
          NoteFault(absl::StrCat("copies first: a server has told that worker ", told.worker(),
                                 " is to begin at step ", told.step(), ", but the copy of shard ",
                                 id.value(), " lacks its push of step ", next.value()));
        }
      }
    });
  }
}

void CopyCheck::CheckNumber(SliceKey slice, const ExchangeReply& reply) {
  if (!reply.status.ok() || reply.copy == 0 || reply.codec != CodecType::kFloat32) return;
  std::vector<uint8_t> values(reply.values.size_bytes());
  reply.values.CopyTo(absl::MakeSpan(values));
  const auto [known, is_new] = numbered_.try_emplace({slice, reply.copy}, values);
  if (is_new || known->second == values) return;
  NoteFault(absl::StrCat("copies agree: of slice ", slice.table.value(), "/", slice.slice.value(),
                         ", number ", reply.copy, " stands for two sets of values"));
}

CopyCheck::Pair CopyCheck::Find(SliceKey slice, size_t server) const {
  Pair pair;
  const ShardHost* const host = hosts_()[server];
  if (host == nullptr) return pair;
  for (const ShardId id : host->shards()) {
    host->shard(id)->LookAt([&](uint64_t, const ShardContents& contents) {
      if (contents.slices.count(slice) > 0) pair = {id, host->shard(id), nullptr};
    });
  }
  if (pair.shard == nullptr) return pair;
  const std::optional<CopyProgress> progress = pair.shard->copy_progress();
  if (progress.has_value()) pair.copy = CopyOf(pair.id, progress->number);
  return pair;
}

class CopyCheck::Watched : public ParameterEndpoint {
 public:
  Watched(CopyCheck* check, ParameterEndpoint* server, size_t index)
      : check_(*check), server_(*server), index_(index) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    const SliceKey slice = request.slice;
    const Pair pair = check_.Find(slice, index_);
    std::optional<CopyProgress> copy;
    if (pair.shard != nullptr) copy = pair.shard->copy_progress();
    const bool is_whole = copy.has_value() && copy->is_whole && pair.copy != nullptr;
    const uint64_t sent = is_whole ? copy->sent : 0;
    const uint64_t number = is_whole ? copy->number : 0;
    server_.Exchange(
        std::move(request), std::move(delivered),
        [this, slice, pair, number, sent, done = std::move(done)](ExchangeReply reply) mutable {
          const bool has_copy = number > 0 && HasCopy(pair, number);
          if (has_copy && reply.status.ok()) Check(slice, pair, sent, reply);
          check_.CheckNumber(slice, reply);
          done(std::move(reply));
        });
  }

 private:
  // Whether neither the shard nor the copy's server has given the copy of this number up.
  static bool HasCopy(const Pair& pair, uint64_t number) {
    const std::optional<CopyProgress> copy = pair.shard->copy_progress();
    return copy.has_value() && copy->number == number && copy->is_whole &&
           pair.copy->number() == number;
  }

  void Check(SliceKey slice, const Pair& pair, uint64_t sent, const ExchangeReply& reply) {
    ++check_.replies_;
    pair.copy->LookAt([&](uint64_t done, bool /*is_whole*/, const ShardContents& copied) {
      const auto found = copied.slices.find(slice);
      // It may have taken over since.
      const uint64_t version =
          found == copied.slices.end() ? reply.version : found->second->version();
      if (done > sent && version >= reply.version) return;
      check_.NoteFault(absl::StrCat("copies first: a reply of slice ", slice.table.value(), "/",
                                    slice.slice.value(), " with version ", reply.version,
                                    " has left, but the copy has version ", version, " and change ",
                                    done, ", and the request came after change ", sent));
    });
  }

  CopyCheck& check_;
  ParameterEndpoint& server_;
  const size_t index_;
};

std::unique_ptr<ParameterEndpoint> CopyCheck::Watch(ParameterEndpoint* server, size_t index) {
  return std::make_unique<Watched>(this, server, index);
}

}  // namespace capstan
