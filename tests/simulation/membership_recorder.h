#ifndef TESTS_SIMULATION_MEMBERSHIP_RECORDER_H_
#define TESTS_SIMULATION_MEMBERSHIP_RECORDER_H_

#include <map>
#include <memory>
#include <set>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/history/contract_log.h"
#include "common/history/history_log.h"
#include "common/membership/coordinator_endpoint.h"

namespace capstan {

// Writes each change of the workers and of the consistency into a history before any member hears
// of it, from one coordinator after the other. Guarded by the baton of the simulation.
class MembershipRecorder {
 public:
  // All arguments outlive the recorder and the answers of coordinators.
  MembershipRecorder(Clock* clock, HistoryLog* log) : clock_(*clock), log_(*log) {}

  // The coordinator as members are to see it. The recorder and the coordinator outlive it.
  std::unique_ptr<CoordinatorEndpoint> Watch(CoordinatorEndpoint* coordinator);

 private:
  class Watched;

  void Note(const v1::JobView& view);
  // The worker is no member any more.
  void WriteEnd(const v1::WorkerInfo& worker);
  void Write(v1::MembershipRecord::Event event, const v1::WorkerInfo& worker);

  Clock& clock_;
  HistoryLog& log_;
  uint64_t newest_version_ = 0;
  ContractLog contracts_;
  std::map<uint32_t, v1::WorkerInfo> known_;  // as in the newest view
  std::set<uint64_t> leaving_;                // incarnations that said so
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_MEMBERSHIP_RECORDER_H_
