#include "common/trust/call_rights.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_join.h"

namespace capstan {
namespace {

constexpr CallRight kCallRights[] = {
    // The coordinator.
    {"GetStatus", Right::kLook, "capstan status and top"},
    {"GetJob", Right::kLook, ""},
    {"ReadClock", Right::kLook, ""},
    {"RegisterWorker", Right::kTakePart, "workers"},
    {"Heartbeat", Right::kTakePart, ""},
    {"Attend", Right::kTakePart, ""},
    {"ReportFailure", Right::kTakePart, ""},
    {"ReportResult", Right::kTakePart, ""},
    {"RegisterServer", Right::kOperate, "servers"},
    {"SetConsistency", Right::kOperate, "capstan set"},
    {"Checkpoint", Right::kOperate, "capstan checkpoint"},
    // A server.
    {"ReadRows", Right::kRead, "capstan get"},
    {"Exchange", Right::kTakePart, ""},
    {"OpenUcx", Right::kTakePart, ""},
    {"Replicate", Right::kOperate, ""},  // of other servers
    // The live page, --http_listen.
    {"GET /", std::nullopt, ""},
    {"GET /live.css", std::nullopt, ""},
    {"GET /live.js", std::nullopt, ""},
    {"GET /d3.js", std::nullopt, ""},
    {"POST /login", std::nullopt, ""},
    {"POST /logout", std::nullopt, ""},
    {"GET /status.json", Right::kLook, "the live page"},
    {"POST /consistency", Right::kOperate, "changes on the live page"},
    // --health_listen and --metrics_listen.
    {"GET /healthz", std::nullopt, ""},
    {"GET /readyz", std::nullopt, ""},
    {"GET /metrics", std::nullopt, ""},
};

}  // namespace

absl::Span<const CallRight> CallRights() { return kCallRights; }

const CallRight* FindCall(absl::string_view call) {
  const auto* const found = std::find_if(std::begin(kCallRights), std::end(kCallRights),
                                         [call](const CallRight& row) { return row.call == call; });
  return found == std::end(kCallRights) ? nullptr : found;
}

Right RightOfCall(absl::string_view call) {
  const CallRight* const found = FindCall(call);
  CHECK(found != nullptr && found->right.has_value()) << "no right of " << call;
  return *found->right;
}

std::string CallersWith(Right right) {
  std::vector<absl::string_view> callers;
  for (const CallRight& row : kCallRights) {
    if (row.right == right && !row.caller.empty()) callers.push_back(row.caller);
  }
  return absl::StrJoin(callers, ", ");
}

}  // namespace capstan
