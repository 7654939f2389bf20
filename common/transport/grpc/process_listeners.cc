#include "common/transport/grpc/process_listeners.h"

#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/http_answer.h"
#include "common/transport/grpc/probe_answer.h"

namespace capstan {
namespace {

absl::StatusOr<std::unique_ptr<HttpListener>> StartHealthListener(const std::string& listen,
                                                                  const Readiness& readiness,
                                                                  Clock* clock) {
  if (listen.empty()) return nullptr;
  HttpListener::Options options;
  options.flag = "--health_listen";
  options.purpose = "answers probes";
  options.listen = listen;
  options.clock = clock;
  options.answer = [&readiness](absl::string_view received) {
    return AnswerProbe(received, [&readiness] { return readiness.Get(); });
  };
  return HttpListener::Start(std::move(options));
}

absl::StatusOr<std::unique_ptr<HttpListener>> StartMetricsListener(const std::string& listen,
                                                                   const MetricsSources& sources,
                                                                   Clock* clock) {
  if (listen.empty()) return nullptr;
  HttpListener::Options options;
  options.flag = "--metrics_listen";
  options.purpose = "serves metrics";
  options.listen = listen;
  options.clock = clock;
  // The listener has one thread.
  options.answer = [&sources,
                    text = std::make_shared<RecentText>(*clock)](absl::string_view received) {
    const HttpPath paths[] = {{"/metrics", [&] {
                                 HttpAnswer answer;
                                 answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
                                 answer.body = text->Get(sources);
                                 return answer;
                               }}};
    return AnswerHttp(received, paths);
  };
  return HttpListener::Start(std::move(options));
}

}  // namespace

absl::StatusOr<ProcessListeners> StartProcessListeners(const std::string& health_listen,
                                                       const std::string& metrics_listen,
                                                       const Readiness& readiness,
                                                       const MetricsSources& metrics,
                                                       Clock* clock) {
  ProcessListeners listeners;
  ASSIGN_OR_RETURN(listeners.health, StartHealthListener(health_listen, readiness, clock));
  ASSIGN_OR_RETURN(listeners.metrics, StartMetricsListener(metrics_listen, metrics, clock));
  return listeners;
}

}  // namespace capstan
