#ifndef SERVER_COORDINATOR_PLANS_AUTO_CODEC_PLAN_H_
#define SERVER_COORDINATOR_PLANS_AUTO_CODEC_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/members/member_registry.h"
#include "server/coordinator/plans/job_plan.h"

namespace capstan {

// The choice for a job's auto codecs, made once: after some steps with float32, tables are sent as
// int8 from a step on if that makes steps shorter by more than it costs. Does nothing in other
// jobs. Not thread-safe.
class AutoCodecPlan : public JobPlan {
 public:
  // If the job goes on from a checkpoint after the choice, the choice stays. `links`, the workers'
  // links, must outlive the plan.
  AutoCodecPlan(const v1::JobSpec& job, const v1::CheckpointManifest& restored,
                const v1::LinkReport& links);

  // Looks at the tables, as the view says they are cut. The codecs are valid.
  void OnPlacement(const JobFacts& facts) override;
  // What was measured so far is void: steps have waited for other servers.
  void OnServerLost(const LostServer& change, const JobFacts& facts) override;
  // Chooses once all workers that compute have done enough steps. int8 begins a few steps after the
  // slowest worker's step.
  bool Settle(const JobFacts& facts, JobEvents& events) override;

  bool is_wanted() const { return is_wanted_; }
  bool has_chosen() const { return !choice_.text().empty(); }
  // The choice belongs into checkpoints: it rests on a measurement.
  bool is_lasting() const { return is_lasting_; }
  const v1::AutoCodecs& choice() const { return choice_; }

  void WriteToView(v1::JobView& view) const override;
  void WriteToStatus(v1::GetStatusReply& status) const override;
  void WriteToManifest(v1::CheckpointManifest& manifest) const override;
  void WriteToState(v1::CoordinatorState& state) const override;
  // Without a choice, the measurement begins again.
  void Restore(const v1::CoordinatorState& state, const JobFacts& facts) override;

 private:
  // Bytes of a step of one worker, each way.
  struct Bytes {
    double pushed = 0;
    double pulled = 0;
  };
  struct Table {
    std::string name;
    uint32_t id = 0;
    Bytes as_float32;  // 0 for a way that has no auto codec
    Bytes saved;       // by int8
  };

  // Where the measurement of a worker begins.
  struct Begin {
    int64_t step = 0;
    std::optional<v1::Progress> progress;  // once the worker has done the steps before
  };

  // The progress of a worker since its measurement has begun; none: it has not begun.
  std::optional<v1::Progress> MeasuredOf(const Member& worker, int64_t least_steps);
  // `step_name` is for people.
  v1::AutoCodecs Choose(const std::vector<v1::Progress>& measured,
                        absl::string_view step_name) const;
  double CostOf(const Table& table) const;

  const v1::LinkReport& links_;
  const v1::CodecSpec codec_;
  const bool is_wanted_;
  const int64_t first_step_;  // of the job, or after the checkpoint
  const double workers_;
  const double servers_;
  // The first view without the last server that was lost; 0: none was. A worker that has acted on
  // it ends the step that is under way, and measures from then on.
  uint64_t loss_version_ = 0;
  std::map<Incarnation, Begin> begins_;  // of workers, since the loss
  v1::AutoCodecs choice_;
  bool is_lasting_ = false;
  Bytes before_;               // of all tables, with the auto codecs off
  std::vector<Table> tables_;  // with an auto codec, the largest first
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_AUTO_CODEC_PLAN_H_
