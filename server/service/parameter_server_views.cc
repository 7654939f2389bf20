// What a server does as each view says.
#include <glog/logging.h>

#include <utility>

#include "common/base/status_macros.h"
#include "common/routing/job_view.h"
#include "server/service/parameter_server.h"
#include "server/service/shard_host_options.h"

namespace capstan {

absl::Status ParameterServer::FollowPeriods(const v1::JobView& view) {
  if (view.consistency_size() == periods_acted_on_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const TableSchedules schedules, SchedulesOfView(view));
  host_->SetSchedules(schedules);
  holds_back_ = false;
  periods_acted_on_ = view.consistency_size();
  return absl::OkStatus();
}

void ParameterServer::FollowCheckpoint(const v1::CheckpointOrder& order) {
  const uint64_t number = order.number();
  if (order.name().empty() || writer_ == nullptr) return;
  if (std::exchange(cut_for_, number) == number) return;
  writer_->Begin(number, order.name(), host_->filled_shards());
  holds_back_ = false;
  host_->CutAt(Step(order.step()), [this, number](ShardSnapshot snapshot) {
    if (!snapshot.slices.empty()) writer_->Add(number, std::move(snapshot));
  });
}

absl::Status ParameterServer::HoldBack(const v1::JobView& view) {
  const v1::CheckpointOrder& order = view.checkpoint();
  const bool is_agreeing = writer_ != nullptr && order.number() != 0 && order.name().empty();
  const bool is_held = is_agreeing || view.consistency_change() != 0;
  const int64_t step = is_held ? host_->HoldBack().value() : 0;
  if (std::exchange(holds_back_, is_held) && !is_held) {
    ASSIGN_OR_RETURN(const TableSchedules schedules, SchedulesOfView(view));
    host_->SetSchedules(schedules);
  }
  MutexLock lock(&mu_);
  if (view.consistency_change() != 0) {
    v1::HeldStep& held = held_step_.emplace();
    held.set_consistency_change(view.consistency_change());
    held.set_step(step);
  }
  if (is_agreeing) checkpoint_.set_held_step(step);
  if (writer_ != nullptr) checkpoint_.set_number(order.number());
  return absl::OkStatus();
}

absl::Status ParameterServer::FollowRoles(ServerId id, const v1::JobView& view) {
  const Epoch epoch(view.epoch());
  for (int i = 0; i < view.server_of_shard_size(); ++i) {
    const ShardId shard(static_cast<uint32_t>(i));
    if (ServerId(view.server_of_shard(i)) != id || host_->is_primary(shard)) continue;
    ASSIGN_OR_RETURN(const TableSchedules schedules, SchedulesOfView(view));
    RETURN_IF_ERROR(host_->TakeOver(shard, epoch, LiveWorkers(view), schedules));
    LOG(INFO) << "has shard " << shard << " from epoch " << epoch << " on";
  }
  return absl::OkStatus();
}

absl::Status ParameterServer::FollowSaving(const v1::JobView& view) {
  if (view.phase() != v1::SAVING) return absl::OkStatus();
  if (std::exchange(saved_epoch_, Epoch(view.epoch())) == Epoch(view.epoch())) {
    return absl::OkStatus();
  }
  return models_->Save(*host_);
}

void ParameterServer::FollowCopies(const v1::GetJobReply& job, ServerId id,
                                   const v1::JobView& view) {
  for (int i = 0; i < view.copies_size(); ++i) {
    const ShardId shard(static_cast<uint32_t>(i));
    const v1::ShardCopy& copy = view.copies(i);
    const bool is_primary = ServerId(view.server_of_shard(i)) == id;
    const bool is_backup = ServerId(copy.server()) == id;
    if (!copy.fault().empty()) {
      if (is_primary) host_->EndCopy(shard, copy.number());
      continue;
    }
    uint64_t& known = copy_numbers_[shard];
    if (copy.number() <= known) continue;
    known = copy.number();
    if (!is_primary) {
      is_backup ? host_->ExpectCopy(shard, copy.number()) : host_->DropCopy(shard, copy.number());
      continue;
    }
    if (!links_.has_value()) {
      const Sender self = {job.job_fingerprint(), WorkerId(id.value()), options_.incarnation};
      links_.emplace(options_.connect_replica, self, options_.clock);
    }
    const v1::ServerInfo& backup = view.servers(static_cast<int>(copy.server()));
    host_->BeginCopy(shard, {copy.number(), Incarnation(backup.incarnation()),
                             links_->To(backup.address(), Incarnation(backup.incarnation()))});
  }
}

}  // namespace capstan
