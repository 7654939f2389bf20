#ifndef SERVER_COORDINATOR_SCRIPTED_CHECKPOINTS_H_
#define SERVER_COORDINATOR_SCRIPTED_CHECKPOINTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"
#include "server/coordinator/scripted_job.h"

namespace capstan {

// For tests of checkpoints: a ScriptedJob whose folder of checkpoints is in memory. The test acts
// for the members.
class ScriptedCheckpoints : public testing::Test {
 protected:
  // Empty until the coordinator has answered.
  using Answer = std::shared_ptr<std::optional<absl::StatusOr<v1::CheckpointReply>>>;

  // What the folder has done, and what it is told to do.
  struct Disk {
    absl::Status created;
    std::function<void()> on_create;
    int folders = 0;                                // "c1", "c2", ...
    std::vector<v1::CheckpointManifest> manifests;  // of complete ones
  };

  // Without `steps`, checkpoints are on request only.
  static v1::JobSpec Job(uint64_t steps);
  // Training, with workers at step 0 of 100.
  std::unique_ptr<ScriptedJob> Train(const v1::JobSpec& spec);
  std::unique_ptr<ScriptedJob> Train(uint64_t steps = 0) { return Train(Job(steps)); }

  // The worker has done these steps, with 10 samples each.
  static void Do(ScriptedJob& job, uint32_t worker, int64_t steps_done);
  // A user asks for a checkpoint.
  static Answer Ask(ScriptedJob& job);

  // The server has acted on the newest view. An error: the heartbeat was refused.
  static absl::Status Report(ScriptedJob& job, uint32_t server, const v1::CheckpointPart& part,
                             const std::vector<v1::NextStep>& next_steps = {},
                             std::optional<int64_t> held_for_change = {});
  // The server holds exchanges from this step on back for a checkpoint.
  static void Hold(ScriptedJob& job, uint32_t server, int64_t step);
  static void HoldAll(ScriptedJob& job, int64_t step);

  static v1::WorkerSteps Steps(uint32_t worker, int64_t least, int64_t most, bool is_live = true);
  // The server has written its shards for the order in `view`, with these steps of workers.
  static v1::CheckpointPart Ended(const v1::JobView& view, uint32_t server,
                                  const std::vector<v1::WorkerSteps>& workers);
  // Both servers have.
  static void EndAll(ScriptedJob& job, const std::vector<v1::WorkerSteps>& workers);

  Disk disk_;

 private:
  class Folder;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_SCRIPTED_CHECKPOINTS_H_
