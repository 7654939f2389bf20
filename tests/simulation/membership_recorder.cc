#include "tests/simulation/membership_recorder.h"

#include <utility>
#include <variant>

#include "absl/time/time.h"

namespace capstan {

class MembershipRecorder::Watched : public CoordinatorEndpoint {
 public:
  Watched(MembershipRecorder* recorder, CoordinatorEndpoint* coordinator)
      : recorder_(*recorder), coordinator_(*coordinator) {}

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override {
    const auto* const heartbeat = std::get_if<v1::HeartbeatRequest>(&request);
    if (heartbeat != nullptr && heartbeat->is_leaving()) {
      recorder_.leaving_.insert(heartbeat->incarnation());
    }
    coordinator_.Call(std::move(request), [this, done = std::move(done)](
                                              absl::StatusOr<CoordinatorReply> reply) mutable {
      const auto* const beat = reply.ok() ? std::get_if<v1::HeartbeatReply>(&*reply) : nullptr;
      if (beat != nullptr) recorder_.Note(ViewOf(*beat).value());
      done(std::move(reply));
    });
  }

 private:
  MembershipRecorder& recorder_;
  CoordinatorEndpoint& coordinator_;
};

std::unique_ptr<CoordinatorEndpoint> MembershipRecorder::Watch(CoordinatorEndpoint* coordinator) {
  return std::make_unique<Watched>(this, coordinator);
}

void MembershipRecorder::Note(const v1::JobView& view) {
  if (view.version() <= newest_version_) return;
  newest_version_ = view.version();
  for (const v1::ContractRecord& contract : contracts_.Update(view)) {
    v1::HistoryRecord record;
    *record.mutable_contract() = contract;
    log_.Append(record);
  }
  for (const v1::WorkerInfo& worker : view.workers()) {
    const auto it = known_.find(worker.worker());
    const bool is_known = it != known_.end() && it->second.incarnation() == worker.incarnation();
    const bool was_live = it != known_.end() && it->second.is_live();
    if (was_live && !is_known) WriteEnd(it->second);
    const bool was_entering = is_known && it->second.is_entering();
    if (!is_known && worker.is_entering()) Write(v1::MembershipRecord::JOINING, worker);
    if ((!is_known || was_entering) && worker.is_live() && !worker.is_entering()) {
      Write(v1::MembershipRecord::ENTERED, worker);
    }
    if (was_live && is_known && !worker.is_live()) WriteEnd(worker);
    known_[worker.worker()] = worker;
  }
}

void MembershipRecorder::WriteEnd(const v1::WorkerInfo& worker) {
  const bool has_left = leaving_.count(worker.incarnation()) > 0;
  Write(has_left ? v1::MembershipRecord::LEFT : v1::MembershipRecord::DIED, worker);
}

void MembershipRecorder::Write(v1::MembershipRecord::Event event, const v1::WorkerInfo& worker) {
  v1::HistoryRecord record;
  v1::MembershipRecord& membership = *record.mutable_membership();
  membership.set_event(event);
  membership.set_worker(worker.worker());
  membership.set_incarnation(worker.incarnation());
  membership.set_first_step(worker.first_step());
  membership.set_time_ns(absl::ToUnixNanos(clock_.Now()));
  log_.Append(record);
}

}  // namespace capstan
