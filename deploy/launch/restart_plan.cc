#include "deploy/launch/restart_plan.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_storage.h"
#include "server/coordinator/members/job_progress.h"

namespace capstan {
namespace {

std::string CountText(int count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string NameOf(absl::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

// Steps that every worker has done. A process that has come in another's place has not reported any
// so far.
int64_t StepsOfAll(const v1::GetStatusReply& status) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const v1::Progress& progress : status.progress()) {
    if (progress.steps_done() > 0) least = std::min(least, progress.steps_done());
  }
  return least == std::numeric_limits<int64_t>::max() ? 0 : least;
}

// Whether each shard had two copies again before the latest loss of a server.
bool WereWhole(const v1::GetStatusReply& status) {
  const int losses = status.server_losses_size();
  return losses < 2 || status.server_losses(losses - 2).seconds_until_whole() > 0;
}

absl::Status VerifyFiles(const std::string& path, const v1::CheckpointManifest& manifest) {
  for (const v1::ShardFile& file : manifest.files()) {
    RETURN_IF_ERROR(VerifyShardFile(path, file));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RestartPlan> RestartPlan::Create(Options options) {
  RestartPlan plan(std::move(options));
  ASSIGN_OR_RETURN(const std::vector<std::string> checkpoints, plan.Checkpoints());
  for (const std::string& path : checkpoints) plan.earlier_.insert(NameOf(path));
  return plan;
}

absl::StatusOr<RestartPlan::Restart> RestartPlan::AfterFailure(const absl::Status& failure,
                                                               bool has_trained) {
  const auto give_up = [&](absl::string_view reason) {
    const std::string counts = CountsText();
    return absl::Status(failure.code(),
                        absl::StrCat(failure.message(), "; ", counts, counts.empty() ? "" : "; ",
                                     "no restart: ", reason));
  };
  if (options_.checkpoint_dir.empty()) {
    const std::string reason = ReasonToEnd(has_trained);
    return give_up(reason.empty() ? "the job has no checkpoints (--checkpoint_dir)" : reason);
  }
  const absl::StatusOr<std::vector<std::string>> checkpoints = Checkpoints();
  if (!checkpoints.ok()) return give_up(checkpoints.status().message());
  NoteNewest(*checkpoints);
  ++failures_in_a_row_;
  // The next life may begin before that.
  steps_done_ = 0;
  server_steps_done_ = 0;
  servers_in_a_row_ = 0;
  coordinator_steps_done_ = 0;
  coordinators_in_a_row_ = 0;
  // The caller may not have seen it train.
  const std::string reason = ReasonToEnd(has_trained || !checkpoints->empty());
  if (!reason.empty()) return give_up(reason);
  const std::string restart = absl::StrCat("restart ", restarts_ + 1);
  absl::Status unread;
  for (const std::string& path : *checkpoints) {
    const absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(path);
    const absl::Status whole = manifest.ok() ? VerifyFiles(path, *manifest) : manifest.status();
    unread.Update(whole);
    if (!whole.ok()) continue;
    ++restarts_;
    return Restart{path,
                   absl::StrCat(restart, " from step ", manifest->step(), " (", NameOf(path), ")")};
  }
  if (!unread.ok()) return give_up(unread.message());
  ++restarts_;
  return Restart{"",
                 absl::StrCat(restart, " as it first began: this run has no checkpoint so far")};
}

RestartPlan::LossAnswer RestartPlan::AfterLostWorker(const v1::GetStatusReply& status) {
  // The coordinator declares the job failed as soon as it learns of the loss, unless the worker's
  // place is held for another one.
  const bool may_keep_bits = AreHeld(status.view()) && MayReplace();
  if (!may_keep_bits && !options_.allows_other_bits && HasBspStepsLeft(status)) {
    return LossAnswer::kRestart;
  }
  if (status.view().phase() != v1::TRAINING || !MayReplace()) return LossAnswer::kGoOn;
  // A folder that cannot be read has no newer checkpoint.
  if (const auto checkpoints = Checkpoints(); checkpoints.ok()) NoteNewest(*checkpoints);
  if (const int64_t done = StepsOfAll(status); done > steps_done_) {
    steps_done_ = done;
    replaced_in_a_row_ = 0;
  }
  if (replaced_in_a_row_ == kMostReplacementsInARow) return LossAnswer::kRestart;
  ++replaced_in_a_row_;
  ++replaced_;
  return LossAnswer::kReplace;
}

std::string RestartPlan::AfterLostServer(const v1::GetStatusReply& status, bool had_come) {
  if (status.view().phase() == v1::SAVING) return "the job is near its end";
  if (!MayReplace()) return LimitText();
  const int64_t done = StepsOfAll(status);
  if (had_come && done > server_steps_done_ && WereWhole(status)) {
    server_steps_done_ = done;
    servers_in_a_row_ = 0;
  }
  if (servers_in_a_row_ == kMostReplacementsInARow) {
    return absl::StrCat(kMostReplacementsInARow,
                        " others were lost in a row before the job had two copies and a further "
                        "step: the reason seems to last");
  }
  ++servers_in_a_row_;
  ++replaced_servers_;
  return "";
}

std::string RestartPlan::AfterLostCoordinator(const v1::GetStatusReply& status) {
  if (!MayReplace()) return LimitText();
  if (const int64_t done = StepsOfAll(status); done > coordinator_steps_done_) {
    coordinator_steps_done_ = done;
    coordinators_in_a_row_ = 0;
  }
  if (coordinators_in_a_row_ == kMostReplacementsInARow) {
    return absl::StrCat(kMostReplacementsInARow,
                        " others were lost in a row without a further step: the reason seems to "
                        "last");
  }
  ++coordinators_in_a_row_;
  ++replaced_coordinators_;
  return "";
}

std::string RestartPlan::CountsText() const {
  std::vector<std::string> texts;
  if (restarts_ > 0) texts.push_back(absl::StrCat("restarted ", CountText(restarts_, "time")));
  if (replaced_coordinators_ > 0) {
    texts.push_back(absl::StrCat(CountText(replaced_coordinators_, "coordinator"), " replaced"));
  }
  if (replaced_ > 0) texts.push_back(absl::StrCat(CountText(replaced_, "worker"), " replaced"));
  if (replaced_servers_ > 0) {
    texts.push_back(absl::StrCat(CountText(replaced_servers_, "server"), " replaced"));
  }
  return absl::StrJoin(texts, ", ");
}

std::string RestartPlan::LimitText() const {
  return absl::StrCat("--restart=on_failure:", options_.most, " allows no more");
}

absl::StatusOr<std::vector<std::string>> RestartPlan::Checkpoints() const {
  if (options_.checkpoint_dir.empty()) return std::vector<std::string>();
  const auto all = ListCheckpoints(options_.checkpoint_dir);
  std::vector<std::string> paths;
  if (absl::IsNotFound(all.status())) return paths;
  RETURN_IF_ERROR(all.status());
  for (const CheckpointName& checkpoint : *all) {
    if (!checkpoint.is_complete || earlier_.count(checkpoint.name) > 0) continue;
    paths.push_back(absl::StrCat(options_.checkpoint_dir, "/", checkpoint.name));
  }
  return paths;
}

void RestartPlan::NoteNewest(const std::vector<std::string>& checkpoints) {
  if (checkpoints.empty() || checkpoints.front() == newest_) return;
  newest_ = checkpoints.front();
  failures_in_a_row_ = 0;
  replaced_in_a_row_ = 0;
}

std::string RestartPlan::ReasonToEnd(bool has_trained) const {
  if (!has_trained) {
    return "the job failed before its first step, and a restart may only repeat that; if the "
           "reason lay outside the job, as with a kill, start it again";
  }
  if (!MayReplace()) return LimitText();
  if (options_.checkpoint_dir.empty() && replaced_in_a_row_ == kMostReplacementsInARow) {
    return absl::StrCat(kMostReplacementsInARow,
                        " workers were lost in a row without a further step: the reason seems to "
                        "last");
  }
  if (failures_in_a_row_ >= kMostFailuresInARow) {
    return absl::StrCat(kMostFailuresInARow,
                        " failures in a row without a newer checkpoint: the reason seems to last");
  }
  return "";
}

}  // namespace capstan
