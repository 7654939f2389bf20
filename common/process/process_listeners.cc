#include "common/process/process_listeners.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// A reason may have come from a peer.
constexpr size_t kMaxReasonBytes = 500;

// One thing that can be asked for.
struct Path {
  absl::string_view name;  // as "/healthz"
  std::function<HttpAnswer()> answer;
};

HttpAnswer Text(int status, absl::string_view line) {
  HttpAnswer answer;
  answer.status = status;
  answer.body = absl::StrCat(line, "\n");
  return answer;
}

// Errors repeat nothing of the request, and name the paths.
HttpAnswer Answer(const HttpRequest& request, const std::vector<Path>& paths) {
  const auto path = std::find_if(paths.begin(), paths.end(),
                                 [&](const Path& known) { return known.name == request.path; });
  if (path == paths.end()) {
    return Text(404, absl::StrCat("expected ",
                                  absl::StrJoin(paths, " or ", [](std::string* out, const Path& p) {
                                    absl::StrAppend(out, p.name);
                                  })));
  }
  if (request.method == "GET" || request.method == "HEAD") return path->answer();
  HttpAnswer answer = Text(405, "expected GET or HEAD");
  answer.headers = {{"Allow", "GET, HEAD"}};
  return answer;
}

HttpAnswer AnswerReady(const absl::Status& readiness) {
  if (readiness.ok()) return Text(200, "ok");
  return Text(503, PrintableText(readiness.message().substr(0, kMaxReasonBytes)));
}

// `purpose` is for the log. Null: `listen` is empty.
absl::StatusOr<std::unique_ptr<HttpListener>> Start(absl::string_view flag,
                                                    absl::string_view purpose,
                                                    const std::string& listen, Clock* clock,
                                                    std::vector<Path> paths) {
  if (listen.empty()) return nullptr;
  HttpListener::Options options;
  options.flag = std::string(flag);
  options.listen = listen;
  options.clock = clock;
  options.answer = [paths = std::move(paths)](const HttpRequest& request) {
    return Answer(request, paths);
  };
  ASSIGN_OR_RETURN(std::unique_ptr<HttpListener> listener, HttpListener::Start(std::move(options)));
  LOG(INFO) << purpose << " at " << listener->address();
  return listener;
}

}  // namespace

absl::StatusOr<ProcessListeners> StartProcessListeners(const std::string& health_listen,
                                                       const std::string& metrics_listen,
                                                       const Readiness& readiness,
                                                       const MetricsSources& metrics,
                                                       Clock* clock) {
  const Path healthz = {"/healthz", [] { return Text(200, "ok"); }};
  const Path readyz = {"/readyz", [&readiness] { return AnswerReady(readiness.Get()); }};
  // The listener answers on one thread.
  const Path samples = {"/metrics", [&metrics, text = std::make_shared<RecentText>(*clock)] {
                          HttpAnswer answer;
                          answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
                          answer.body = text->Get(metrics);
                          return answer;
                        }};
  ProcessListeners listeners;
  ASSIGN_OR_RETURN(listeners.health, Start("--health_listen", "answers probes", health_listen,
                                           clock, {healthz, readyz}));
  ASSIGN_OR_RETURN(listeners.metrics,
                   Start("--metrics_listen", "serves metrics", metrics_listen, clock, {samples}));
  return listeners;
}

}  // namespace capstan
