#ifndef TESTS_SIMULATION_MEMBERSHIP_RECORDER_H_
#define TESTS_SIMULATION_MEMBERSHIP_RECORDER_H_

#include <map>
#include <set>
#include <utility>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/history/contract_log.h"
#include "common/history/history_log.h"
#include "common/membership/coordinator_endpoint.h"

namespace capstan {

// Wraps a coordinator. Writes each change of the workers and of the consistency into a history
// before any member hears of it. Guarded by the baton of the simulation.
class MembershipRecorder : public CoordinatorEndpoint {
 public:
  // All arguments outlive the recorder and the answers of `coordinator`.
  MembershipRecorder(CoordinatorEndpoint* coordinator, Clock* clock, HistoryLog* log)
      : coordinator_(*coordinator), clock_(*clock), log_(*log) {}

  void GetJob(v1::GetJobRequest request, Callback<v1::GetJobReply> done) override {
    coordinator_.GetJob(std::move(request), std::move(done));
  }
  void RegisterServer(v1::RegisterServerRequest request,
                      Callback<v1::RegisterReply> done) override {
    coordinator_.RegisterServer(std::move(request), std::move(done));
  }
  void RegisterWorker(v1::RegisterWorkerRequest request,
                      Callback<v1::RegisterReply> done) override {
    coordinator_.RegisterWorker(std::move(request), std::move(done));
  }
  void Heartbeat(v1::HeartbeatRequest request, Callback<v1::HeartbeatReply> done) override;
  void ReportFailure(v1::ReportFailureRequest request,
                     Callback<v1::ReportFailureReply> done) override {
    coordinator_.ReportFailure(std::move(request), std::move(done));
  }
  void ReportResult(v1::ReportResultRequest request,
                    Callback<v1::ReportResultReply> done) override {
    coordinator_.ReportResult(std::move(request), std::move(done));
  }
  void GetStatus(v1::GetStatusRequest request, Callback<v1::GetStatusReply> done) override {
    coordinator_.GetStatus(std::move(request), std::move(done));
  }
  void SetConsistency(v1::SetConsistencyRequest request,
                      Callback<v1::SetConsistencyReply> done) override {
    coordinator_.SetConsistency(std::move(request), std::move(done));
  }
  void Checkpoint(v1::CheckpointRequest request, Callback<v1::CheckpointReply> done) override {
    coordinator_.Checkpoint(std::move(request), std::move(done));
  }
  void ReadClock(v1::ReadClockRequest request, Callback<v1::ReadClockReply> done) override {
    coordinator_.ReadClock(std::move(request), std::move(done));
  }

 private:
  void Note(const v1::JobView& view);
  // The worker is no member any more.
  void WriteEnd(const v1::WorkerInfo& worker);
  void Write(v1::MembershipRecord::Event event, const v1::WorkerInfo& worker);

  CoordinatorEndpoint& coordinator_;
  Clock& clock_;
  HistoryLog& log_;
  uint64_t newest_version_ = 0;
  ContractLog contracts_;
  std::map<uint32_t, v1::WorkerInfo> known_;  // as in the newest view
  std::set<uint64_t> leaving_;                // incarnations that said so
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_MEMBERSHIP_RECORDER_H_
