#include "server/coordinator/scripted_checkpoints.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"

namespace capstan {

class ScriptedCheckpoints::Folder : public CheckpointStorage {
 public:
  explicit Folder(Disk* disk) : disk_(*disk) {}

  uint64_t token() const override { return 5; }
  std::string PathOf(const std::string& name) const override { return name; }
  absl::StatusOr<std::string> Create() override {
    if (disk_.on_create) disk_.on_create();
    if (!disk_.created.ok()) return disk_.created;
    return absl::StrCat("c", ++disk_.folders);
  }
  absl::Status Publish(const std::string& name, const v1::CheckpointManifest& manifest) override {
    // A real folder refuses a manifest that nobody can read.
    absl::Status readable = DecodeManifest(EncodeManifest(manifest), name).status();
    if (readable.ok()) disk_.manifests.push_back(manifest);
    return readable;
  }
  void Discard(const std::string&) override {}
  absl::Status RemoveOld(uint32_t) override { return absl::OkStatus(); }

 private:
  Disk& disk_;
};

v1::JobSpec ScriptedCheckpoints::Job(uint64_t steps) {
  v1::JobSpec job = ScriptedJob::Job();
  job.mutable_checkpoint()->set_dir("dir");
  job.mutable_checkpoint()->set_steps(steps);
  return job;
}

std::unique_ptr<ScriptedJob> ScriptedCheckpoints::Train(const v1::JobSpec& spec) {
  auto job = std::make_unique<ScriptedJob>(spec, std::make_unique<Folder>(&disk_));
  job->StartTraining();
  for (uint32_t id = 0; id < 2; ++id) Do(*job, id, 0);
  return job;
}

void ScriptedCheckpoints::Do(ScriptedJob& job, uint32_t worker, int64_t steps_done) {
  v1::Progress progress;
  progress.set_steps_done(steps_done);
  progress.set_steps_total(100);
  progress.set_samples(static_cast<uint64_t>(10 * steps_done));
  job.Heartbeat(Worker(worker), job.View().version(), progress);
}

ScriptedCheckpoints::Answer ScriptedCheckpoints::Ask(ScriptedJob& job) {
  auto answer = std::make_shared<std::optional<absl::StatusOr<v1::CheckpointReply>>>();
  CallCoordinator(job.coordinator(), v1::CheckpointRequest(),
                  [answer](absl::StatusOr<v1::CheckpointReply> reply) {
                    ASSERT_FALSE(answer->has_value()) << "answered twice";
                    *answer = std::move(reply);
                  });
  return answer;
}

absl::Status ScriptedCheckpoints::Report(ScriptedJob& job, uint32_t server,
                                         const v1::CheckpointPart& part,
                                         const std::vector<v1::NextStep>& next_steps,
                                         std::optional<int64_t> held_for_change) {
  v1::HeartbeatRequest request;
  request.set_role(v1::HeartbeatRequest::SERVER);
  request.set_id(server);
  request.set_incarnation(ScriptedJob::IncarnationOf(Server(server)));
  request.set_view_version(job.View().version());
  *request.mutable_checkpoint() = part;
  request.mutable_next_steps()->Assign(next_steps.begin(), next_steps.end());
  if (held_for_change.has_value()) {
    request.mutable_held_step()->set_consistency_change(job.View().consistency_change());
    request.mutable_held_step()->set_step(*held_for_change);
  }
  const auto status = std::make_shared<absl::Status>();
  CallCoordinator(
      job.coordinator(), request,
      [status](const absl::StatusOr<v1::HeartbeatReply>& reply) { *status = reply.status(); });
  return *status;  // Only a refused heartbeat is answered at once.
}

void ScriptedCheckpoints::Hold(ScriptedJob& job, uint32_t server, int64_t step) {
  v1::CheckpointPart part;
  part.set_number(job.View().checkpoint().number());
  part.set_held_step(step);
  EXPECT_TRUE(Report(job, server, part).ok());
}

void ScriptedCheckpoints::HoldAll(ScriptedJob& job, int64_t step) {
  for (uint32_t server = 0; server < 2; ++server) Hold(job, server, step);
}

v1::WorkerSteps ScriptedCheckpoints::Steps(uint32_t worker, int64_t least, int64_t most,
                                           bool is_live) {
  v1::WorkerSteps steps;
  steps.set_worker(worker);
  steps.set_least(least);
  steps.set_most(most);
  steps.set_is_live(is_live);
  return steps;
}

v1::CheckpointPart ScriptedCheckpoints::Ended(const v1::JobView& view, uint32_t server,
                                              const std::vector<v1::WorkerSteps>& workers) {
  v1::CheckpointPart part;
  part.set_number(view.checkpoint().number());
  part.set_has_ended(true);
  for (int shard = 0; shard < view.server_of_shard_size(); ++shard) {
    if (view.server_of_shard(shard) != server) continue;
    v1::ShardFile& file = *part.add_files();
    file.set_shard(static_cast<uint32_t>(shard));
    file.set_bytes(100 + static_cast<uint64_t>(shard));
  }
  part.mutable_workers()->Assign(workers.begin(), workers.end());
  for (const v1::WorkerSteps& worker : workers) {
    part.set_end_step(std::max(part.end_step(), worker.most()));
  }
  return part;
}

void ScriptedCheckpoints::EndAll(ScriptedJob& job, const std::vector<v1::WorkerSteps>& workers) {
  const v1::JobView view = job.View();
  for (uint32_t server = 0; server < 2; ++server) {
    EXPECT_TRUE(Report(job, server, Ended(view, server, workers)).ok());
  }
}

}  // namespace capstan
