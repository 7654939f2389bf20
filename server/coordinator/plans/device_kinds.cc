#include "server/coordinator/plans/device_kinds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

constexpr size_t kMostKindBytes = 200;

// "NVIDIA H200" of "cuda:0 (NVIDIA H200)"; empty if there is none.
std::string KindOf(const std::string& device) {
  const size_t begin = device.find('(');
  const size_t end = device.rfind(')');
  if (begin == device.npos || end == device.npos || end < begin) return "";
  return PrintableText(device.substr(begin + 1, std::min(end - begin - 1, kMostKindBytes)));
}

}  // namespace

DeviceKinds::DeviceKinds(const v1::CheckpointManifest& restored, const ConsistencyPlan& consistency)
    : consistency_(consistency), restored_step_(restored.step()) {
  for (const v1::CheckpointWorker& worker : restored.workers()) {
    const std::string kind = KindOf(worker.progress().device());
    if (!kind.empty()) restored_kinds_.insert(kind);
  }
}

absl::Status DeviceKinds::Report(const v1::HeartbeatRequest& heartbeat) {
  if (heartbeat.role() != v1::HeartbeatRequest::WORKER) return absl::OkStatus();
  worker_ = heartbeat.id();
  kind_ = KindOf(heartbeat.progress().device());
  return absl::OkStatus();
}

bool DeviceKinds::Settle(const JobFacts&, JobEvents& events) {
  const std::string kind = std::exchange(kind_, "");
  if (kind.empty()) return false;
  std::vector<std::string> notes;
  if (!restored_kinds_.empty() && restored_kinds_.count(kind) == 0) {
    notes.push_back(absl::StrCat("worker ", worker_, " computes on ", kind,
                                 ", and the workers before the checkpoint of step ", restored_step_,
                                 " on ", absl::StrJoin(restored_kinds_, " and "),
                                 ": the parameters' bits are not those of an undisturbed job"));
    restored_kinds_.clear();
  }
  if (first_kind_.empty()) {
    first_worker_ = worker_;
    first_kind_ = kind;
  }
  const bool is_bsp = consistency_.latest().consistency().mode() == v1::ConsistencySpec::BSP;
  if (is_bsp && kind != first_kind_ && !has_told_difference_) {
    notes.push_back(absl::StrCat("worker ", first_worker_, " computes on ", first_kind_,
                                 ", and worker ", worker_, " on ", kind,
                                 ": the parameters' bits depend on who computes what"));
    has_told_difference_ = true;
  }
  if (!notes.empty()) events.emplace_back(absl::StrJoin(notes, "; "));
  notes_.insert(notes_.end(), notes.begin(), notes.end());
  return false;
}

}  // namespace capstan
