#include "server/coordinator/plans/server_losses.h"

#include <algorithm>

namespace capstan {
namespace {

constexpr size_t kMostLosses = 16;

// Distinguishes "at once" from "not yet".
constexpr double kLeastSeconds = 0.001;

}  // namespace

void ServerLosses::Add(uint32_t server, const std::string& what, uint32_t shards_moved) {
  Loss& added = losses_.emplace_back();
  added.time = facts_.clock.Now();
  added.loss.set_server(server);
  added.loss.set_what(what);
  added.loss.set_shards_moved(shards_moved);
  if (losses_.size() > kMostLosses) losses_.pop_front();
}

bool ServerLosses::Settle(const JobFacts& facts, JobEvents&) {
  if (losses_.empty() || losses_.back().loss.seconds_until_whole() > 0) return false;
  if (replicas_.CopiesNotWhole() > 0) return false;
  for (Loss& one : losses_) {
    if (one.loss.seconds_until_whole() > 0) continue;
    const double seconds = absl::ToDoubleSeconds(facts.clock.Now() - one.time);
    one.loss.set_seconds_until_whole(std::max(seconds, kLeastSeconds));
  }
  return false;
}

template <typename Message>
void ServerLosses::WriteLosses(Message& message) const {
  for (const Loss& one : losses_) {
    v1::ServerLoss& written = *message.add_server_losses();
    written = one.loss;
    written.set_seconds_ago(absl::ToDoubleSeconds(facts_.clock.Now() - one.time));
  }
}

void ServerLosses::WriteToState(v1::CoordinatorState& state) const { WriteLosses(state); }

void ServerLosses::Restore(const v1::CoordinatorState& state, const JobFacts& facts) {
  for (const v1::ServerLoss& loss : state.server_losses()) {
    losses_.push_back({facts.clock.Now() - absl::Seconds(loss.seconds_ago()), loss});
  }
}

void ServerLosses::WriteToStatus(v1::GetStatusReply& status) const {
  WriteLosses(status);
  status.set_servers_lost(static_cast<uint32_t>(facts_.ServersLost()));
  status.set_servers_replaced(static_cast<uint32_t>(facts_.members.servers_replaced()));
}

}  // namespace capstan
