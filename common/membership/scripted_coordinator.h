#ifndef COMMON_MEMBERSHIP_SCRIPTED_COORDINATOR_H_
#define COMMON_MEMBERSHIP_SCRIPTED_COORDINATOR_H_

#include <deque>
#include <utility>

#include "absl/status/statusor.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// For tests: keeps every call, in `calls` of its kind, until the test answers it. Not thread-safe.
class ScriptedCoordinator : public CoordinatorEndpoint {
 public:
  template <typename Request, typename Reply>
  struct Calls : std::deque<std::pair<Request, Callback<Reply>>> {
    // Answers the oldest call and returns its request.
    Request Answer(absl::StatusOr<Reply> reply) {
      auto [request, done] = std::move(this->front());
      this->pop_front();
      done(std::move(reply));
      return request;
    }
  };

  void GetJob(v1::GetJobRequest request, Callback<v1::GetJobReply> done) override {
    get_job.emplace_back(std::move(request), std::move(done));
  }
  void RegisterServer(v1::RegisterServerRequest request,
                      Callback<v1::RegisterReply> done) override {
    register_server.emplace_back(std::move(request), std::move(done));
  }
  void RegisterWorker(v1::RegisterWorkerRequest request,
                      Callback<v1::RegisterReply> done) override {
    register_worker.emplace_back(std::move(request), std::move(done));
  }
  void Heartbeat(v1::HeartbeatRequest request, Callback<v1::HeartbeatReply> done) override {
    heartbeats.emplace_back(std::move(request), std::move(done));
  }
  void ReportFailure(v1::ReportFailureRequest request,
                     Callback<v1::ReportFailureReply> done) override {
    report_failure.emplace_back(std::move(request), std::move(done));
  }
  void ReportResult(v1::ReportResultRequest request,
                    Callback<v1::ReportResultReply> done) override {
    report_result.emplace_back(std::move(request), std::move(done));
  }
  void GetStatus(v1::GetStatusRequest request, Callback<v1::GetStatusReply> done) override {
    get_status.emplace_back(std::move(request), std::move(done));
  }
  void SetConsistency(v1::SetConsistencyRequest request,
                      Callback<v1::SetConsistencyReply> done) override {
    set_consistency.emplace_back(std::move(request), std::move(done));
  }
  void Checkpoint(v1::CheckpointRequest request, Callback<v1::CheckpointReply> done) override {
    checkpoint.emplace_back(std::move(request), std::move(done));
  }
  void ReadClock(v1::ReadClockRequest request, Callback<v1::ReadClockReply> done) override {
    read_clock.emplace_back(std::move(request), std::move(done));
  }

  Calls<v1::GetJobRequest, v1::GetJobReply> get_job;
  Calls<v1::RegisterServerRequest, v1::RegisterReply> register_server;
  Calls<v1::RegisterWorkerRequest, v1::RegisterReply> register_worker;
  Calls<v1::HeartbeatRequest, v1::HeartbeatReply> heartbeats;
  Calls<v1::ReportFailureRequest, v1::ReportFailureReply> report_failure;
  Calls<v1::ReportResultRequest, v1::ReportResultReply> report_result;
  Calls<v1::GetStatusRequest, v1::GetStatusReply> get_status;
  Calls<v1::SetConsistencyRequest, v1::SetConsistencyReply> set_consistency;
  Calls<v1::CheckpointRequest, v1::CheckpointReply> checkpoint;
  Calls<v1::ReadClockRequest, v1::ReadClockReply> read_clock;
};

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_SCRIPTED_COORDINATOR_H_
