#include "common/transport/grpc/probe_answer.h"

#include <cstddef>

#include "common/base/printable_text.h"
#include "common/transport/grpc/http_answer.h"

namespace capstan {
namespace {

// A reason may have come from a peer.
constexpr size_t kMaxReasonBytes = 500;

HttpAnswer Ok() {
  HttpAnswer answer;
  answer.body = "ok\n";
  return answer;
}

HttpAnswer Ready(const absl::Status& readiness) {
  if (readiness.ok()) return Ok();
  const absl::string_view reason = readiness.message();
  HttpAnswer answer;
  answer.status = "503 Service Unavailable";
  answer.body = PrintableText(reason.substr(0, kMaxReasonBytes)) + "\n";
  return answer;
}

}  // namespace

std::optional<std::string> AnswerProbe(absl::string_view received,
                                       absl::FunctionRef<absl::Status()> readiness) {
  const HttpPath paths[] = {{"/healthz", Ok},
                            {"/readyz", [readiness] { return Ready(readiness()); }}};
  return AnswerHttp(received, paths);
}

}  // namespace capstan
