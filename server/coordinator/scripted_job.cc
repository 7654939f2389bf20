#include "server/coordinator/scripted_job.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "server/coordinator/saved_job.h"
#include "server/coordinator/state/file_state_store.h"

namespace capstan {
namespace {

// The coordinator answers all but heartbeats before the call returns.
template <typename Reply>
auto StoreIn(std::optional<absl::StatusOr<Reply>>& answer) {
  return [&answer](absl::StatusOr<Reply> reply) {
    CHECK(!answer.has_value()) << "answered twice";
    answer = std::move(reply);
  };
}

absl::StatusOr<uint32_t> IdOf(const absl::StatusOr<v1::RegisterReply>& reply) {
  if (!reply.ok()) return reply.status();
  return reply->id();
}

}  // namespace

v1::JobSpec ScriptedJob::Job() {
  v1::JobSpec job;
  job.set_name("scripted");
  job.mutable_cluster()->set_shard_count(4);
  job.mutable_scheduler()->set_slice_bytes(64);
  job.mutable_membership()->set_lease_seconds(10);
  job.mutable_membership()->set_heartbeat_seconds(0.5);
  job.mutable_membership()->set_replace_seconds(0);
  return job;
}

std::vector<v1::TableSpec> ScriptedJob::Tables(std::vector<uint64_t> shape) {
  v1::TableSpec table;
  table.set_name("w");
  table.mutable_shape()->Add(shape.begin(), shape.end());
  return {table};
}

ScriptedJob::ScriptedJob(const v1::JobSpec& job, std::unique_ptr<CheckpointStorage> checkpoints,
                         std::optional<RestorePoint> restored,
                         std::shared_ptr<MemoryStateFolder::Content> folder)
    : job_(job), folder_(std::move(folder)) {
  Coordinator::Options options;
  options.job = job;
  options.job_fingerprint = 77;
  options.checkpoints = std::move(checkpoints);
  options.restored = std::move(restored);
  if (folder_ != nullptr) OpenState(options);
  coordinator_ = std::make_unique<Coordinator>(std::move(options), clock_);
}

std::unique_ptr<Coordinator> ScriptedJob::ReplaceCoordinator(
    std::unique_ptr<CheckpointStorage> checkpoints, bool takes_over) {
  Coordinator::Options options;
  options.takes_over = takes_over;
  options.job = job_;
  options.job_fingerprint = 77;
  options.folder_token = 78;
  options.checkpoints = std::move(checkpoints);
  OpenState(options);
  return std::exchange(coordinator_, std::make_unique<Coordinator>(std::move(options), clock_));
}

void ScriptedJob::OpenState(Coordinator::Options& options) {
  FileStateStore::Options store;
  store.folder = std::make_unique<MemoryStateFolder>(folder_);
  store.dir = "state";
  store.check = [this](const SavedJob& saved) { return CheckSavedJob(saved, job_); };
  absl::StatusOr<FileStateStore::Opened> opened = FileStateStore::Open(std::move(store));
  CHECK(opened.ok()) << opened.status();
  options.store = std::move(opened->store);
  options.saved = std::move(opened->before);
  options.save_in_background = [](absl::AnyInvocable<void()> work) { work(); };
  options.on_lost = [this](absl::Status status) { lost_ = std::move(status); };
}

absl::StatusOr<uint32_t> ScriptedJob::RegisterServer(uint64_t incarnation, const char* address) {
  v1::RegisterServerRequest request;
  request.set_incarnation(incarnation);
  request.set_address(address);
  std::optional<absl::StatusOr<v1::RegisterReply>> answer;
  CallCoordinator(*coordinator_, request, StoreIn(answer));
  return IdOf(answer.value());
}

absl::StatusOr<uint32_t> ScriptedJob::RegisterWorker(uint64_t incarnation,
                                                     const std::vector<v1::TableSpec>& tables,
                                                     uint32_t own_arrays) {
  v1::RegisterWorkerRequest request;
  request.set_incarnation(incarnation);
  request.mutable_tables()->Add(tables.begin(), tables.end());
  request.set_own_arrays(own_arrays);
  request.set_is_replaceable(true);
  std::optional<absl::StatusOr<v1::RegisterReply>> answer;
  CallCoordinator(*coordinator_, request, StoreIn(answer));
  return IdOf(answer.value());
}

ScriptedJob::Beat ScriptedJob::Heartbeat(MemberKey member, uint64_t view_version,
                                         v1::Progress progress) {
  v1::HeartbeatRequest request;
  request.set_role(member.role);
  request.set_id(member.id);
  request.set_incarnation(IncarnationOf(member));
  request.set_view_version(view_version);
  if (member.role == v1::HeartbeatRequest::WORKER) *request.mutable_progress() = progress;
  auto beat = std::make_shared<Beat::element_type>();
  CallCoordinator(*coordinator_, request,
                  [beat](auto reply) { StoreIn (*beat)(std::move(reply)); });
  return beat;
}

absl::Status ScriptedJob::ReportFailure(MemberKey member, const char* reason) {
  v1::ReportFailureRequest request;
  request.set_role(member.role);
  request.set_id(member.id);
  request.set_incarnation(IncarnationOf(member));
  request.set_reason(reason);
  std::optional<absl::StatusOr<v1::ReportFailureReply>> answer;
  CallCoordinator(*coordinator_, request, StoreIn(answer));
  return answer.value().status();
}

absl::Status ScriptedJob::ReportEarlyFailure(Role role, const char* reason) {
  v1::ReportFailureRequest request;
  request.set_role(role);
  request.set_reason(reason);
  request.set_before_registering(true);
  std::optional<absl::StatusOr<v1::ReportFailureReply>> answer;
  CallCoordinator(*coordinator_, request, StoreIn(answer));
  return answer.value().status();
}

absl::Status ScriptedJob::ReportResult(uint32_t worker, double test_accuracy) {
  v1::ReportResultRequest request;
  request.set_worker(worker);
  request.set_incarnation(IncarnationOf(Worker(worker)));
  request.set_test_accuracy(test_accuracy);
  std::optional<absl::StatusOr<v1::ReportResultReply>> answer;
  CallCoordinator(*coordinator_, request, StoreIn(answer));
  return answer.value().status();
}

v1::GetStatusReply ScriptedJob::Status() {
  std::optional<absl::StatusOr<v1::GetStatusReply>> answer;
  CallCoordinator(*coordinator_, v1::GetStatusRequest(), StoreIn(answer));
  return answer.value().value();
}

void ScriptedJob::RegisterAll() {
  for (uint32_t id = 0; id < 2; ++id) {
    CHECK_EQ(RegisterServer(IncarnationOf(Server(id))).value(), id);
    CHECK_EQ(RegisterWorker(IncarnationOf(Worker(id))).value(), id);
  }
}

void ScriptedJob::StartTraining() {
  RegisterAll();
  const uint64_t version = View().version();
  for (uint32_t id = 0; id < 2; ++id) Heartbeat(Server(id), version);
  CHECK_EQ(View().phase(), v1::TRAINING);
}

ScriptedJob::Beat ScriptedJob::FinishSteps(uint32_t worker, int64_t steps) {
  v1::Progress progress;
  progress.set_steps_done(steps);
  progress.set_steps_total(steps);
  progress.set_samples(100);
  return Heartbeat(Worker(worker), View().version(), progress);
}

void ScriptedJob::PassTime(absl::Duration duration, const std::vector<MemberKey>& alive) {
  const absl::Time end = clock_.Now() + duration;
  while (clock_.Now() < end) {
    for (const MemberKey member : alive) Heartbeat(member, View().version());
    clock_.Advance(std::min(absl::Seconds(1), end - clock_.Now()));
  }
}

}  // namespace capstan
