#include "server/coordinator/members/job_facts.h"

#include <cstddef>
#include <utility>

#include "common/job/job_properties.h"
#include "server/coordinator/members/job_progress.h"

namespace capstan {

JobFacts::JobFacts(v1::JobSpec job, const Clock& clock, RestorePoint restored)
    : job(std::move(job)),
      restored(std::move(restored)),
      clock(clock),
      members(this->job.cluster().num_servers(), this->job.cluster().num_workers()),
      tables(this->job, this->restored),
      training(this->job, this->restored),
      has_other_bits(this->restored.manifest.has_other_bits()) {}

int64_t JobFacts::LastStep() const {
  return EndStep(job, training.steps_total(), members.latest_first_step().value());
}

v1::Progress JobFacts::ProgressOf(uint32_t worker) const {
  const v1::Progress& progress = members.workers()[worker].progress;
  if (restored.is_empty()) return progress;
  return JoinedProgress(restored.manifest.workers(static_cast<int>(worker)).progress(), progress);
}

int JobFacts::WorkersLost() const {
  auto lost =
      static_cast<int>(restored.manifest.workers_lost() + members.replaced_workers().size());
  for (const Member& worker : members.workers()) lost += worker.is_lost();
  return lost;
}

int JobFacts::ServersLost() const {
  const size_t dead = members.servers().size() - members.LiveServerCount();
  return static_cast<int>(members.servers_replaced() + dead);
}

std::vector<MemberKey> JobFacts::LiveMembers() const {
  std::vector<MemberKey> live;
  for (const v1::ServerInfo& server : view.servers()) {
    if (server.is_live()) live.push_back({v1::HeartbeatRequest::SERVER, server.server()});
  }
  for (const v1::WorkerInfo& worker : view.workers()) {
    if (worker.is_live()) live.push_back({v1::HeartbeatRequest::WORKER, worker.worker()});
  }
  return live;
}

v1::JobView JobFacts::ViewWithTables() const {
  v1::JobView with_tables = view;
  if (view.epoch() > 0) *with_tables.mutable_tables() = tables.specs();
  return with_tables;
}

}  // namespace capstan
